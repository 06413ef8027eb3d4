// Command fields prints, as JSON, the facts about Kubernetes' API types that no schema document carries
// whole: JSON field names in declaration order, Go types, which zero values are omitted, merge keys, list types.
package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"

	"weir.example/tools/kinds"
)

type table struct {
	Structs map[string][]any  `json:"structs"`
	Kinds   map[string]string `json:"kinds"`
	Map     map[string]string `json:"maptypes"`
	defs    map[string]common.OpenAPIDefinition
}

// named marks a slice or map type that has a name of its own.
func named(rt reflect.Type) string {
	if rt.Name() == "" {
		return ""
	}
	return "=" + rt.String()
}

func (t *table) shape(rt reflect.Type) string {
	switch rt.Kind() {
	case reflect.Pointer:
		return "*" + t.shape(rt.Elem())
	case reflect.Slice:
		if rt.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + t.shape(rt.Elem()) + named(rt)
	case reflect.Map:
		key := ""
		if rt.Key().Name() != "string" && rt.Name() == "" {
			key = rt.Key().String()
		}
		return "{" + key + "}" + t.shape(rt.Elem()) + named(rt)
	case reflect.Struct:
		if _, ok := kinds.Special(rt); !ok {
			t.visit(rt)
		}
		return kinds.Short(rt)
	case reflect.Interface:
		return "any"
	}
	if rt.PkgPath() != "" {
		return rt.Kind().String() + ":" + rt.String()
	}
	return rt.Kind().String()
}

func (t *table) visit(rt reflect.Type) {
	name := kinds.Short(rt)
	if _, ok := t.Structs[name]; ok {
		return
	}
	t.Structs[name] = nil
	model := "io." + strings.ReplaceAll(strings.Replace(rt.PkgPath(), "k8s.io", "k8s", 1), "/", ".") + "." + rt.Name()
	def := t.defs[model].Schema
	if def.Properties == nil && rt.NumField() > 0 {
		println("no schema:", model)
	}
	if mt, ok := def.Extensions.GetString("x-kubernetes-map-type"); ok {
		t.Map[name] = mt
	}
	required := map[string]bool{}
	for _, r := range def.Required {
		required[r] = true
	}
	fields := []any{}
	t.fields(rt, "", def, required, &fields)
	t.Structs[name] = fields
}

func (t *table) fields(rt reflect.Type, within string, def spec.Schema, required map[string]bool, out *[]any) {
	for i := 0; i < rt.NumField(); i++ {
		f := rt.Field(i)
		tag := strings.Split(f.Tag.Get("json"), ",")
		if tag[0] == "-" || !f.IsExported() {
			continue
		}
		if f.Anonymous && tag[0] == "" {
			t.fields(f.Type, strings.TrimPrefix(within+"."+f.Name, "."), def, required, out)
			continue
		}
		name := tag[0]
		flags := ""
		for _, o := range tag[1:] {
			switch o {
			case "omitempty":
				flags += "o"
			case "omitzero":
				flags += "z"
			}
		}
		if required[name] {
			flags += "r"
		}
		extra := map[string]any{}
		if within != "" && within != "TypeMeta" {
			extra["in"] = within // error texts name the embedded struct
		}
		prop := def.Properties[name]
		for from, to := range map[string]string{"x-kubernetes-list-type": "list", "x-kubernetes-map-type": "map",
			"x-kubernetes-patch-strategy": "strategy", "x-kubernetes-patch-merge-key": "merge"} {
			if v, ok := prop.Extensions.GetString(from); ok {
				extra[to] = v
			}
		}
		if f.Tag.Get("patchStrategy") != "" {
			extra["strategy"] = f.Tag.Get("patchStrategy")
		}
		if f.Tag.Get("patchMergeKey") != "" {
			extra["merge"] = f.Tag.Get("patchMergeKey")
		}
		if keys, ok := prop.Extensions.GetStringSlice("x-kubernetes-list-map-keys"); ok {
			extra["keys"] = keys
		}
		if prop.Default != nil && reflect.TypeOf(prop.Default).Kind() != reflect.Map {
			said := strings.Contains(flags, "o") || f.Type.Kind() == reflect.Pointer // else it is only Go's zero
			if said || !reflect.ValueOf(prop.Default).IsZero() {
				extra["default"] = prop.Default
			}
		}
		if values := prop.Enum; len(values) > 0 {
			extra["enum"] = values
		} else if prop.Items != nil && prop.Items.Schema != nil && len(prop.Items.Schema.Enum) > 0 {
			extra["enum"] = prop.Items.Schema.Enum
		}
		row := []any{name, t.shape(f.Type), flags}
		if len(extra) > 0 {
			row = append(row, extra)
		}
		*out = append(*out, row)
	}
}

func main() {
	t := &table{Structs: map[string][]any{}, Kinds: map[string]string{}, Map: map[string]string{}}
	t.defs = openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef(path) })
	for _, kind := range kinds.All() {
		t.Kinds[kind.Version+"/"+kind.Name] = kinds.Short(kind.Type)
		t.visit(kind.Type)
	}
	fmt.Println("{\"kinds\": " + text(t.Kinds) + ",\n\"atomic\": " + text(t.Map) + ",\n\"structs\": {")
	names := []string{}
	for name := range t.Structs {
		names = append(names, name)
	}
	sort.Strings(names)
	for i, name := range names {
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		fmt.Println(text(name) + ": " + text(t.Structs[name]) + end)
	}
	fmt.Println("}}")
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
