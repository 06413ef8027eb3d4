// Command validators answers, for each JSON line {"Obj":…,"Old":…,"Subresource":…} on standard input, with the causes
// Kubernetes' own strategies and validators give: decode, default, prepare, validate. Arguments are feature gates.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/capabilities"

	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"

	api "k8s.io/kubernetes/pkg/apis/core"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	mutatingwebhook "k8s.io/kubernetes/pkg/registry/admissionregistration/mutatingwebhookconfiguration"
	validatingwebhook "k8s.io/kubernetes/pkg/registry/admissionregistration/validatingwebhookconfiguration"
	"k8s.io/kubernetes/pkg/registry/apps/controllerrevision"
	"k8s.io/kubernetes/pkg/registry/apps/daemonset"
	"k8s.io/kubernetes/pkg/registry/apps/deployment"
	"k8s.io/kubernetes/pkg/registry/apps/replicaset"
	"k8s.io/kubernetes/pkg/registry/apps/statefulset"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/endpoint"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/podtemplate"
	"k8s.io/kubernetes/pkg/registry/core/replicationcontroller"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/resource/deviceclass"
	"k8s.io/kubernetes/pkg/registry/resource/devicetaintrule"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaim"
	"k8s.io/kubernetes/pkg/registry/resource/resourceclaimtemplate"
	"k8s.io/kubernetes/pkg/registry/resource/resourceslice"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/storage/csidriver"
	"k8s.io/kubernetes/pkg/registry/storage/csinode"
	"k8s.io/kubernetes/pkg/registry/storage/csistoragecapacity"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"
	"k8s.io/kubernetes/pkg/registry/storage/volumeattachment"
)

type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

var strategies = map[string]any{
	"Pod": pod.Strategy, "Pod/status": pod.StatusStrategy, "Pod/ephemeralcontainers": pod.EphemeralContainersStrategy, "Pod/resize": pod.ResizeStrategy,
	"Node": node.Strategy, "Node/status": node.StatusStrategy, "Namespace": namespace.Strategy, "Namespace/status": namespace.StatusStrategy,
	"PersistentVolume": persistentvolume.Strategy, "PersistentVolumeClaim": persistentvolumeclaim.Strategy,
	"PersistentVolume/status": persistentvolume.StatusStrategy, "PersistentVolumeClaim/status": persistentvolumeclaim.StatusStrategy,
	"ConfigMap": configmap.Strategy, "Secret": secret.Strategy, "ServiceAccount": serviceaccount.Strategy, "Endpoints": endpoint.Strategy,
	"Event": event.Strategy, "LimitRange": limitrange.Strategy, "ResourceQuota": resourcequota.Strategy, "PodTemplate": podtemplate.Strategy,
	"ReplicationController": replicationcontroller.Strategy,
	"Deployment":            deployment.Strategy, "ReplicaSet": replicaset.Strategy, "StatefulSet": statefulset.Strategy, "DaemonSet": daemonset.Strategy,
	"Deployment/status": deployment.StatusStrategy, "ReplicaSet/status": replicaset.StatusStrategy, "StatefulSet/status": statefulset.StatusStrategy, "DaemonSet/status": daemonset.StatusStrategy,
	"ControllerRevision": controllerrevision.Strategy, "Job": job.Strategy, "Job/status": job.StatusStrategy, "CronJob": cronjob.Strategy,
	"Lease": lease.Strategy, "EndpointSlice": endpointslice.Strategy, "RuntimeClass": runtimeclass.Strategy,
	"PodDisruptionBudget": poddisruptionbudget.Strategy, "PodDisruptionBudget/status": poddisruptionbudget.StatusStrategy, "ClusterRole": clusterrole.Strategy, "ClusterRoleBinding": clusterrolebinding.Strategy,
	"Role": role.Strategy, "RoleBinding": rolebinding.Strategy, "PriorityClass": priorityclass.Strategy,
	"CSIDriver": csidriver.Strategy, "CSINode": csinode.Strategy, "CSIStorageCapacity": csistoragecapacity.Strategy,
	"StorageClass": storageclass.Strategy, "VolumeAttachment": volumeattachment.Strategy,
	"DeviceClass": deviceclass.Strategy, "DeviceTaintRule": devicetaintrule.Strategy, "DeviceTaintRule/status": devicetaintrule.StatusStrategy,
	"ResourceSlice": resourceslice.Strategy,
}

type req struct {
	Obj, Old    json.RawMessage
	Subresource string
}

func decode(body []byte) (runtime.Object, error) {
	var tm metav1.TypeMeta
	if err := json.Unmarshal(body, &tm); err != nil {
		return nil, err
	}
	gvk := schema.FromAPIVersionAndKind(tm.APIVersion, tm.Kind)
	info, _ := runtime.SerializerInfoForMediaType(legacyscheme.Codecs.SupportedMediaTypes(), "application/json")
	dec := legacyscheme.Codecs.DecoderToVersion(info.Serializer, schema.GroupVersion{Group: gvk.Group, Version: runtime.APIVersionInternal})
	obj, _, err := dec.Decode(body, &gvk, nil)
	return obj, err
}

func handle(r req) (res map[string]any) {
	defer func() {
		if p := recover(); p != nil {
			res = map[string]any{"panic": fmt.Sprint(p)}
		}
	}()
	obj, err := decode(r.Obj)
	if err != nil {
		return map[string]any{"decode": err.Error()}
	}
	var tm metav1.TypeMeta
	json.Unmarshal(r.Obj, &tm)
	gvk := schema.FromAPIVersionAndKind(tm.APIVersion, tm.Kind)
	name := tm.Kind
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	acc, _ := meta.Accessor(obj)
	ctx := genericapirequest.WithNamespace(context.Background(), acc.GetNamespace())
	ctx = genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{APIGroup: gvk.Group, APIVersion: gvk.Version, Subresource: r.Subresource, IsResourceRequest: true, Resource: "x"})
	if name == "Service" {
		svc := obj.(*api.Service)
		if len(r.Old) > 0 {
			old, _ := decode(r.Old)
			return errs(apierrors.NewInvalid(gvk.GroupKind(), acc.GetName(), corevalidation.ValidateServiceUpdate(svc, old.(*api.Service))))
		}
		return errs(apierrors.NewInvalid(gvk.GroupKind(), acc.GetName(), corevalidation.ValidateServiceCreate(svc)))
	}
	st, ok := strategies[name]
	if !ok {
		return map[string]any{"unknown": name}
	}
	if len(r.Old) > 0 {
		old, err := decode(r.Old)
		if err != nil {
			return map[string]any{"decode": err.Error()}
		}
		if acc.GetResourceVersion() == "" {
			acc.SetResourceVersion("1")
		}
		return errs(rest.BeforeUpdate(st.(rest.RESTUpdateStrategy), ctx, obj, old))
	}
	rest.FillObjectMetaSystemFields(acc)
	return errs(rest.BeforeCreate(st.(rest.RESTCreateStrategy), ctx, obj))
}

func errs(err error) map[string]any {
	if err == nil {
		return map[string]any{"causes": []any{}}
	}
	if se, ok := err.(*apierrors.StatusError); ok {
		var cs []metav1.StatusCause
		if se.ErrStatus.Details != nil {
			cs = se.ErrStatus.Details.Causes
		}
		if se.ErrStatus.Reason == metav1.StatusReasonInvalid {
			if cs == nil {
				cs = []metav1.StatusCause{}
			}
			return map[string]any{"causes": cs}
		}
		return map[string]any{"other": se.ErrStatus.Message, "code": se.ErrStatus.Code}
	}
	return map[string]any{"other": err.Error()}
}

func main() {
	capabilities.Setup(true, 0)
	for _, g := range os.Args[1:] {
		if err := utilfeature.DefaultMutableFeatureGate.Set(g); err != nil {
			panic(err)
		}
	}
	strategies["ResourceClaim"] = resourceclaim.NewStrategy(nil, nil)
	strategies["ResourceClaimTemplate"] = resourceclaimtemplate.NewStrategy(nil)
	strategies["ResourceClaim/status"] = resourceclaim.NewStatusStrategy(resourceclaim.NewStrategy(nil, nil))
	strategies["MutatingWebhookConfiguration"] = mutatingwebhook.Strategy
	strategies["ValidatingWebhookConfiguration"] = validatingwebhook.Strategy
	in := bufio.NewReaderSize(os.Stdin, 64<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	dec := json.NewDecoder(in)
	for {
		var r req
		if err := dec.Decode(&r); err != nil {
			return
		}
		out.Encode(handle(r))
	}
}
