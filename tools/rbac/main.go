// Command rbac prints the roles and bindings that a new cluster starts with, as Kubernetes' own policy defines them.
package main

import (
	"encoding/json"
	"fmt"

	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

func main() {
	rows := []any{}
	for _, role := range append(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()...) {
		role.TypeMeta.Kind = "ClusterRole"
		rows = append(rows, role)
	}
	for _, binding := range append(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()...) {
		binding.TypeMeta.Kind = "ClusterRoleBinding"
		rows = append(rows, binding)
	}
	for _, namespace := range []string{"kube-public", "kube-system"} {
		for _, role := range bootstrappolicy.NamespaceRoles()[namespace] {
			role.TypeMeta.Kind = "Role"
			rows = append(rows, role)
		}
		for _, binding := range bootstrappolicy.NamespaceRoleBindings()[namespace] {
			binding.TypeMeta.Kind = "RoleBinding"
			rows = append(rows, binding)
		}
	}
	fmt.Println("[")
	for i, row := range rows {
		text, err := json.Marshal(row)
		if err != nil {
			panic(err)
		}
		end := ","
		if i == len(rows)-1 {
			end = ""
		}
		fmt.Println(string(text) + end)
	}
	fmt.Println("]")
}
