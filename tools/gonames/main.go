// Command gonames prints the fields of Kubernetes' internal types that error messages show whole, in declaration order
// as `GoName[=wireName][:type]`. Types: none text, i integer, b boolean, q quantity, p null when absent, m map, a
// struct's name for one inside, *Name for one that may be absent, []Name for a list.
package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"

	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/certificates"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/flowcontrol"
	"k8s.io/kubernetes/pkg/apis/resource"

	"weir.example/tools/kinds"
)

// roots are the structs that messages show; the table also holds what lies in them.
var roots = []any{
	core.EphemeralContainer{}, core.NodeSelectorTerm{}, core.ObjectReference{}, core.PersistentVolumeClaimSpec{},
	core.PersistentVolumeClaimStatus{}, core.PersistentVolumeSource{}, core.PodSpec{}, core.Taint{}, core.VolumeNodeAffinity{},
	batch.PodFailurePolicy{}, batch.SuccessPolicy{}, resource.DeviceAttribute{},
	flowcontrol.FlowSchemaSpec{}, flowcontrol.PriorityLevelConfigurationSpec{}, flowcontrol.FlowDistinguisherMethod{},
	certificates.PodCertificateRequestSpec{},
}

type table struct {
	rows     map[string]string
	internal map[string]reflect.Type
	served   map[string]reflect.Type // by group and Go name: the struct of version v1
}

// collect notes every struct of version v1 below rt.
func (t *table) collect(rt reflect.Type) {
	switch rt.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		t.collect(rt.Elem())
	case reflect.Struct:
		key := strings.TrimSuffix(strings.TrimPrefix(rt.PkgPath(), "k8s.io/api/"), "/v1") + "." + rt.Name()
		if _, ok := t.served[key]; ok || !strings.HasPrefix(rt.PkgPath(), "k8s.io/api/") {
			return
		}
		t.served[key] = rt
		for i := 0; i < rt.NumField(); i++ {
			t.collect(rt.Field(i).Type)
		}
	}
}

func isInternal(rt reflect.Type) bool {
	return strings.HasPrefix(rt.PkgPath(), "k8s.io/kubernetes/pkg/apis/")
}

// isWhole says whether a struct marshals with its own Go names; one with an embedded ObjectMeta does not.
func isWhole(rt reflect.Type) bool {
	for i := 0; i < rt.NumField(); i++ {
		if f := rt.Field(i); f.Anonymous && !isInternal(f.Type) {
			return false
		}
	}
	return rt.Kind() == reflect.Struct && isInternal(rt)
}

func (t *table) kind(rt reflect.Type) string {
	switch rt.Kind() {
	case reflect.String:
		return ""
	case reflect.Bool:
		return "b"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "i"
	case reflect.Map:
		return "m"
	case reflect.Pointer, reflect.Slice:
		if inner := rt.Elem(); inner.Kind() == reflect.Struct && isWhole(inner) {
			t.visit(inner)
			return map[reflect.Kind]string{reflect.Pointer: "*", reflect.Slice: "[]"}[rt.Kind()] + inner.Name()
		}
		return "p"
	case reflect.Struct:
		if isWhole(rt) {
			t.visit(rt)
			return rt.Name()
		}
		if name, _ := kinds.Special(rt); name == "Quantity" {
			return "q"
		} else if name == "IntOrString" {
			return "i"
		}
		return "p"
	}
	panic("no type for " + rt.String())
}

func (t *table) visit(rt reflect.Type) {
	if known, ok := t.internal[rt.Name()]; ok {
		if known != rt {
			panic("two structs are called " + rt.Name())
		}
		return
	}
	t.internal[rt.Name()] = rt
	t.rows[rt.Name()] = strings.Join(t.fields(rt), " ")
}

func (t *table) fields(rt reflect.Type) []string {
	served, ok := t.served[strings.TrimPrefix(rt.PkgPath(), "k8s.io/kubernetes/pkg/apis/")+"."+rt.Name()]
	found := []string{}
	for i := 0; i < rt.NumField(); i++ {
		f := rt.Field(i)
		if f.Anonymous && f.Type.Kind() == reflect.Struct {
			found = append(found, t.fields(f.Type)...)
			continue
		}
		text, wire := f.Name, strings.ToLower(f.Name[:1])+f.Name[1:]
		if ok {
			if same, there := served.FieldByName(f.Name); there {
				if name := strings.Split(same.Tag.Get("json"), ",")[0]; name != wire {
					text += "=" + name
				}
			}
		}
		if kind := t.kind(f.Type); kind != "" {
			text += ":" + kind
		}
		found = append(found, text)
	}
	return found
}

func main() {
	t := &table{map[string]string{}, map[string]reflect.Type{}, map[string]reflect.Type{}}
	for _, kind := range kinds.All() {
		t.collect(kind.Type)
	}
	for _, root := range roots {
		t.visit(reflect.TypeOf(root))
	}
	names := []string{}
	for name := range t.rows {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Println("{")
	for i, name := range names {
		text, err := json.Marshal(t.rows[name])
		if err != nil {
			panic(err)
		}
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		fmt.Printf("%q: %s%s\n", name, text, end)
	}
	fmt.Println("}")
}
