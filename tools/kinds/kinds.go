// Package kinds says which of Kubernetes' API types the tables of weir are made from.
package kinds

import (
	"reflect"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	_ "k8s.io/kubernetes/pkg/apis/storagemigration/install"
)

// Groups are the group versions whose kinds the tables hold.
var Groups = []string{
	"v1", "apps/v1", "batch/v1", "policy/v1", "scheduling.k8s.io/v1", "storage.k8s.io/v1", "coordination.k8s.io/v1",
	"node.k8s.io/v1", "rbac.authorization.k8s.io/v1", "authentication.k8s.io/v1", "authorization.k8s.io/v1",
	"admissionregistration.k8s.io/v1", "discovery.k8s.io/v1", "events.k8s.io/v1", "autoscaling/v1", "autoscaling/v2",
	"resource.k8s.io/v1", "resource.k8s.io/v1beta1", "resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3", "networking.k8s.io/v1",
	"flowcontrol.apiserver.k8s.io/v1", "apiextensions.k8s.io/v1", "apiregistration.k8s.io/v1", "certificates.k8s.io/v1",
	"storagemigration.k8s.io/v1",
}

func init() {
	apiextensions.Install(legacyscheme.Scheme)
	apiregistration.Install(legacyscheme.Scheme)
}

// special types have a JSON form of their own; the value is the name the tables use for it.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":       "Time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":  "MicroTime",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":   "Duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":   "FieldsV1",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":   "Quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString": "IntOrString",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":    "RawExtension",

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "JSON",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "SchemaOrArray",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "SchemaOrBool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "SchemaOrStrings",
}

// Kind is one kind of one group version.
type Kind struct {
	Version string
	Name    string
	Type    reflect.Type
}

// All returns the kinds of Groups, by name within each group version.
func All() []Kind {
	found := []Kind{}
	for _, version := range Groups {
		gv, err := schema.ParseGroupVersion(version)
		if err != nil {
			panic(err)
		}
		types := legacyscheme.Scheme.KnownTypes(gv)
		names := []string{}
		for name := range types {
			if strings.HasSuffix(name, "Options") && name != "DeleteOptions" || name == "WatchEvent" {
				continue
			}
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			found = append(found, Kind{version, name, types[name]})
		}
	}
	return found
}

// Special returns the tables' name for a type with a JSON form of its own.
func Special(t reflect.Type) (string, bool) {
	name, ok := special[t.PkgPath()+"."+t.Name()]
	return name, ok
}

// Short returns the name of a struct in the tables: group, version and Go name.
func Short(t reflect.Type) string {
	if name, ok := Special(t); ok {
		return name
	}
	name := t.PkgPath() + "." + t.Name()
	for _, prefix := range []string{"k8s.io/apimachinery/pkg/apis/", "k8s.io/apiextensions-apiserver/pkg/apis/", "k8s.io/kube-aggregator/pkg/apis/", "k8s.io/api/"} {
		if strings.HasPrefix(name, prefix) {
			return strings.ReplaceAll(name[len(prefix):], "/", ".")
		}
	}
	return name
}
