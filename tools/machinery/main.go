// Command machinery lets Kubernetes' own code answer: for each JSON line on standard input it decodes, encodes,
// converts, patches, or updates field ownership as a kube-apiserver does, and prints one JSON line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/generated/openapi"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	_ "weir.example/tools/kinds" // every group of the tables is in the scheme
)

type question struct {
	Op, Version, Kind, Body, Manager, Subresource string
	Live, New                                     json.RawMessage
	Reset                                         [][]string
	Force                                         bool
}

type answer struct {
	Object   any      `json:"object,omitempty"`
	Error    string   `json:"error,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

func (q question) gvk() schema.GroupVersionKind {
	gv, err := schema.ParseGroupVersion(q.Version)
	if err != nil {
		panic(err)
	}
	return gv.WithKind(q.Kind)
}

func (q question) hub() schema.GroupVersion {
	return schema.GroupVersion{Group: q.gvk().Group, Version: runtime.APIVersionInternal}
}

func (q question) empty() runtime.Object {
	object, err := legacyscheme.Scheme.New(q.gvk())
	if err != nil {
		panic(err)
	}
	return object
}

func jsonInfo() runtime.SerializerInfo {
	info, _ := runtime.SerializerInfoForMediaType(legacyscheme.Codecs.SupportedMediaTypes(), "application/json")
	return info
}

// decode reads and defaults a body; the error names the kind it was read as, as the server's message does.
func (q question) decode(body []byte) (runtime.Object, []string, error) {
	gvk := q.gvk()
	object, got, err := legacyscheme.Codecs.DecoderToVersion(jsonInfo().StrictSerializer, q.hub()).Decode(body, &gvk, nil)
	if err == nil {
		return object, nil, nil
	}
	strict, ok := runtime.AsStrictDecodingError(err)
	if !ok || object == nil {
		if got != nil {
			err = fmt.Errorf("%s in version %q cannot be handled as a %s: %w", got.Kind, got.Version, q.Kind, err)
		}
		return nil, nil, err
	}
	warnings := []string{}
	for _, e := range strict.Errors() {
		warnings = append(warnings, e.Error())
	}
	return object, warnings, nil
}

func (q question) encode(object runtime.Object) json.RawMessage {
	out, err := runtime.Encode(legacyscheme.Codecs.EncoderForVersion(jsonInfo().Serializer, q.gvk().GroupVersion()), object)
	if err != nil {
		panic(err)
	}
	return out
}

var converter managedfields.TypeConverter

// typeConverter knows the schema of every registered kind.
func typeConverter() managedfields.TypeConverter {
	if converter != nil {
		return converter
	}
	models := map[string]*spec.Schema{}
	for name, definition := range openapi.GetOpenAPIDefinitions(func(path string) spec.Ref {
		return spec.MustCreateRef("#/definitions/" + path)
	}) {
		model := definition.Schema
		models[name] = &model
	}
	for gvk, goType := range legacyscheme.Scheme.AllKnownTypes() {
		name := "io." + strings.ReplaceAll(strings.Replace(goType.PkgPath(), "k8s.io", "k8s", 1), "/", ".") + "." + goType.Name()
		model, ok := models[name]
		if !ok || gvk.Version == runtime.APIVersionInternal {
			continue
		}
		kinds, _ := model.Extensions["x-kubernetes-group-version-kind"].([]interface{})
		if model.Extensions == nil {
			model.Extensions = spec.Extensions{}
		}
		model.Extensions["x-kubernetes-group-version-kind"] = append(kinds, map[string]interface{}{
			"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind,
		})
	}
	made, err := managedfields.NewTypeConverter(models, false)
	if err != nil {
		panic(err)
	}
	converter = made
	return converter
}

func (q question) fieldManager() *managedfields.FieldManager {
	reset := fieldpath.NewSet()
	for _, path := range q.Reset {
		parts := []interface{}{}
		for _, part := range path {
			parts = append(parts, part)
		}
		reset.Insert(fieldpath.MakePathOrDie(parts...))
	}
	sets := map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(q.Version): reset}
	made, err := managedfields.NewDefaultFieldManager(typeConverter(), legacyscheme.Scheme, legacyscheme.Scheme,
		legacyscheme.Scheme, q.gvk(), q.hub(), q.Subresource, fieldpath.NewExcludeFilterSetMap(sets))
	if err != nil {
		panic(err)
	}
	return made
}

func (q question) live() (runtime.Object, error) {
	if len(q.Live) == 0 || string(q.Live) == "null" {
		return q.empty(), nil
	}
	object, _, err := q.decode(q.Live)
	return object, err
}

func (q question) run() (any, []string, error) {
	switch q.Op {
	case "decode":
		object, warnings, err := q.decode([]byte(q.Body))
		if err != nil {
			return nil, nil, err
		}
		return q.encode(object), warnings, nil
	case "protobuf": // what is sent to a client that prefers it
		object, gvk, err := legacyscheme.Codecs.UniversalDeserializer().Decode([]byte(q.Body), nil, nil)
		if err != nil {
			return nil, nil, err
		}
		object.GetObjectKind().SetGroupVersionKind(*gvk)
		out, err := runtime.Encode(protobuf.NewSerializer(legacyscheme.Scheme, legacyscheme.Scheme), object)
		return out, nil, err
	case "convert":
		fields := map[string]interface{}{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(q.Body), &fields); err != nil {
			return nil, nil, err
		}
		object := q.empty()
		return object, nil, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(fields, object, true)
	case "strategic":
		out, err := strategicpatch.StrategicMergePatch(q.Live, []byte(q.Body), q.empty())
		return json.RawMessage(out), nil, err
	case "merge":
		out, err := jsonpatch.MergePatch(q.Live, []byte(q.Body))
		return json.RawMessage(out), nil, err
	case "json":
		operations, err := jsonpatch.DecodePatch([]byte(q.Body))
		if err != nil {
			return nil, nil, err
		}
		out, err := operations.Apply(q.Live)
		return json.RawMessage(out), nil, err
	case "update":
		live, err := q.live()
		if err != nil {
			return nil, nil, err
		}
		object, _, err := q.decode(q.New)
		if err != nil {
			return nil, nil, err
		}
		updated, err := q.fieldManager().Update(live, object, q.Manager)
		if err != nil {
			return nil, nil, err
		}
		return q.encode(updated), nil, nil
	case "apply":
		live, err := q.live()
		if err != nil {
			return nil, nil, err
		}
		configuration := &unstructured.Unstructured{Object: map[string]interface{}{}}
		if err := json.Unmarshal([]byte(q.Body), &configuration.Object); err != nil {
			return nil, nil, err
		}
		applied, err := q.fieldManager().Apply(live, configuration, q.Manager, q.Force)
		if err != nil {
			return nil, nil, err
		}
		return q.encode(applied), nil, nil
	}
	return nil, nil, fmt.Errorf("unknown question %q", q.Op)
}

func (q question) answer() (out answer) {
	defer func() {
		if problem := recover(); problem != nil {
			out = answer{Error: fmt.Sprint("panic: ", problem)}
		}
	}()
	object, warnings, err := q.run()
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Object: object, Warnings: warnings}
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<24)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var q question
		if err := json.Unmarshal(line, &q); err != nil {
			panic(err)
		}
		out, err := json.Marshal(q.answer())
		if err != nil {
			panic(err)
		}
		fmt.Println(string(out))
	}
}
