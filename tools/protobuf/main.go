// Command protobuf prints the fields of Kubernetes' API messages by their protobuf numbers: JSON name, type and flags.
//
// Types: s text, i integer, b boolean, y bytes, d floating point, m:Name a message, L a list of texts with a message of
// its own, and the types with a JSON form of their own (Q T U I R D, and A B S of schemas in definitions). Flags: * a
// pointer, so an explicit zero is kept, [ a list, { a map, < a struct that lies flat in its parent.
package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"weir.example/tools/kinds"
)

var codes = map[string]string{
	"Time": "T", "MicroTime": "U", "Duration": "D", "FieldsV1": "R", "Quantity": "Q", "IntOrString": "I",
	"RawExtension": "R", "JSON": "R", "SchemaOrArray": "A", "SchemaOrBool": "B", "SchemaOrStrings": "S",
}

type table map[string]map[int][]string

func (t table) code(rt reflect.Type) string {
	switch rt.Kind() {
	case reflect.Pointer:
		return t.code(rt.Elem())
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "b"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64:
		return "i"
	case reflect.Float32, reflect.Float64:
		return "d"
	case reflect.Slice:
		if rt.Elem().Kind() == reflect.Uint8 {
			return "y"
		}
		if rt.Elem().Kind() == reflect.String && isMessage(rt) {
			return "L"
		}
	case reflect.Struct:
		if name, ok := kinds.Special(rt); ok {
			return codes[name]
		}
		t.visit(rt)
		return "m:" + kinds.Short(rt)
	}
	panic("no code for " + rt.String())
}

// isMessage tells a named list, which protobuf wraps in a message, from a plain one.
func isMessage(rt reflect.Type) bool {
	_, ok := reflect.PointerTo(rt).MethodByName("Marshal")
	return rt.Name() != "" && ok
}

func (t table) visit(rt reflect.Type) {
	name := kinds.Short(rt)
	if _, ok := t[name]; ok {
		return
	}
	t[name] = map[int][]string{}
	for i := 0; i < rt.NumField(); i++ {
		f := rt.Field(i)
		tag := f.Tag.Get("protobuf")
		if tag == "" || tag == "-" {
			continue
		}
		number, err := strconv.Atoi(strings.Split(tag, ",")[1])
		if err != nil {
			panic(rt.String() + "." + f.Name + ": " + err.Error())
		}
		json := strings.Split(f.Tag.Get("json"), ",")[0]
		ft, flags := f.Type, ""
		switch {
		case f.Anonymous && json == "":
			flags = "<"
		case ft.Kind() == reflect.Pointer:
			flags = "*"
		case ft.Kind() == reflect.Map:
			ft, flags = ft.Elem(), "{"
		case ft.Kind() == reflect.Slice && ft.Elem().Kind() != reflect.Uint8 && !isMessage(ft):
			ft, flags = ft.Elem(), "["
		}
		t[name][number] = []string{json, t.code(ft), flags}
	}
}

func main() {
	t := table{}
	for _, kind := range kinds.All() {
		if kind.Name == "List" || strings.HasSuffix(kind.Name, "List") {
			continue // clients read lists, as JSON, and never write them
		}
		t.visit(kind.Type)
	}
	names := []string{}
	for name := range t {
		names = append(names, name)
	}
	sort.Strings(names)
	fmt.Println("{")
	for i, name := range names {
		text, err := json.Marshal(t[name])
		if err != nil {
			panic(err)
		}
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		fmt.Printf("%q:%s%s\n", name, text, end)
	}
	fmt.Println("}")
}
