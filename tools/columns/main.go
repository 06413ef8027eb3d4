// Command columns prints the columns of the tables that Kubernetes shows objects of the given kinds in: name, type,
// format and priority. Their descriptions are Kubernetes' prose and stay there.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/printers/internalversion"
)

type handler map[string][]metav1.TableColumnDefinition

// TableHandler keeps the columns of the kind that *print* prints.
func (h handler) TableHandler(columns []metav1.TableColumnDefinition, print any) error {
	kind := reflect.TypeOf(print).In(0).Elem().Name()
	if !strings.HasSuffix(kind, "List") || kind == "List" {
		if _, ok := h[kind]; !ok {
			h[kind] = columns
		}
	}
	return nil
}

func main() {
	h := handler{}
	internalversion.AddHandlers(h)
	served := map[string]bool{}
	for _, kind := range os.Args[1:] {
		served[kind] = true
	}
	names := []string{}
	for name := range h {
		if served[name] {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	fmt.Println("{")
	for i, name := range names {
		fmt.Printf("%q: [\n", name)
		for j, c := range h[name] {
			text, err := json.Marshal([]any{c.Name, c.Type, c.Format, c.Priority})
			if err != nil {
				panic(err)
			}
			fmt.Println("  " + string(text) + comma(j, len(h[name])))
		}
		fmt.Println("]" + comma(i, len(names)))
	}
	fmt.Println("}")
}

func comma(i, n int) string {
	if i == n-1 {
		return ""
	}
	return ","
}
