// Command flowcontrol prints the flow schemas and priority levels that a new cluster starts with, defaulted, and which of
// them are mandatory.
package main

import (
	"encoding/json"
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
)

type row struct {
	Mandatory bool   `json:"mandatory"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Spec      any    `json:"spec"`
}

func add(rows []string, mandatory bool, kind string, object metav1.Object) []string {
	legacyscheme.Scheme.Default(object.(runtime.Object))
	found := row{mandatory, kind, object.GetName(), nil}
	switch o := object.(type) {
	case *flowcontrolv1.FlowSchema:
		found.Spec = o.Spec
	case *flowcontrolv1.PriorityLevelConfiguration:
		found.Spec = o.Spec
	}
	text, err := json.Marshal(found)
	if err != nil {
		panic(err)
	}
	return append(rows, string(text))
}

func main() {
	rows := []string{}
	for _, level := range bootstrap.SuggestedPriorityLevelConfigurations {
		rows = add(rows, false, "PriorityLevelConfiguration", level.DeepCopy())
	}
	for _, schema := range bootstrap.SuggestedFlowSchemas {
		rows = add(rows, false, "FlowSchema", schema.DeepCopy())
	}
	for _, level := range bootstrap.MandatoryPriorityLevelConfigurations {
		rows = add(rows, true, "PriorityLevelConfiguration", level.DeepCopy())
	}
	for _, schema := range bootstrap.MandatoryFlowSchemas {
		rows = add(rows, true, "FlowSchema", schema.DeepCopy())
	}
	fmt.Println("[")
	for i, text := range rows {
		if i < len(rows)-1 {
			text += ","
		}
		fmt.Println(text)
	}
	fmt.Println("]")
}
