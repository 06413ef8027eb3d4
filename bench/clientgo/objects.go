package main

import (
	"fmt"
	"math/rand"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	namespace = "default"
	// A scheduler that does not exist: such pods are only created.
	noScheduler = "none"
	driver      = "gpu.example.com"
	// Of diverse claims.
	claimTemplates = 100
	devicesPerNode = 16
)

func requests(cpu, memory int) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		"cpu": resource.MustParse(fmt.Sprintf("%dm", cpu)), "memory": resource.MustParse(fmt.Sprintf("%dMi", memory)),
	}}
}

// podOf returns the labels, annotations and spec of a pod.
func podOf(rng *rand.Rand, scheduler string) (metav1.ObjectMeta, corev1.PodSpec) {
	spec := corev1.PodSpec{
		SchedulerName: scheduler,
		Containers:    []corev1.Container{{Name: "c", Image: "app:v1", Resources: requests(100, 64)}},
		Tolerations: []corev1.Toleration{
			{Key: "sla", Operator: "Gt", Value: fmt.Sprint(100 + rng.Intn(800)), Effect: "NoSchedule"},
			{Key: "gpu", Operator: "Exists"},
		},
	}
	meta := metav1.ObjectMeta{Labels: map[string]string{"app": "web", "tier": "front"}}
	if !*diverse {
		return meta, spec
	}
	meta.Labels = map[string]string{
		"app": fmt.Sprintf("svc-%d", rng.Intn(100000)), "team": fmt.Sprintf("t%d", rng.Intn(500)),
		"revision": fmt.Sprintf("%x", rng.Int63()),
	}
	meta.Annotations = map[string]string{"example.com/commit": fmt.Sprintf("%x%x", rng.Int63(), rng.Int63())}
	spec.Containers = nil
	for i := 0; i <= rng.Intn(3); i++ {
		c := corev1.Container{
			Name:         fmt.Sprintf("c%d", i),
			Image:        fmt.Sprintf("registry.example/team%d/app%d:v%d", rng.Intn(300), rng.Intn(5000), rng.Intn(20)),
			Resources:    requests(10+rng.Intn(90), 16+rng.Intn(100)),
			Ports:        []corev1.ContainerPort{{ContainerPort: int32(1024 + rng.Intn(60000))}},
			VolumeMounts: []corev1.VolumeMount{{Name: "conf", MountPath: fmt.Sprintf("/data%d", rng.Intn(1000))}},
		}
		for j := 0; j < 2+rng.Intn(6); j++ {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("VAR_%d", j), Value: fmt.Sprintf("%x", rng.Int63())})
		}
		spec.Containers = append(spec.Containers, c)
	}
	conf := corev1.LocalObjectReference{Name: fmt.Sprintf("conf-%d", rng.Intn(100000))}
	source := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: conf}}
	spec.Volumes = []corev1.Volume{{Name: "conf", VolumeSource: source}}
	return meta, spec
}

// node returns one node; every second carries a taint that tolerations of pods compare by number.
func node(i int) *corev1.Node {
	amounts := corev1.ResourceList{"cpu": resource.MustParse("32"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110")}
	name := fmt.Sprintf("node-%d", i)
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
	n.Status = corev1.NodeStatus{Capacity: amounts, Allocatable: amounts}
	if i%2 == 1 {
		n.Spec.Taints = []corev1.Taint{{Key: "sla", Value: fmt.Sprint(i / 2 % 1000), Effect: "NoSchedule"}}
	}
	return n
}

// devices returns the GPUs of one node; claims tolerate the taint of every second.
func devices(i int) *resourcev1.ResourceSlice {
	name, model := fmt.Sprintf("node-%d", i), "LATEST-GPU-MODEL"
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name + "-gpus"}}
	slice.Spec = resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &name,
		Pool: resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1},
	}
	for index := int64(0); index < devicesPerNode; index++ {
		number := index
		device := resourcev1.Device{
			Name:       fmt.Sprintf("gpu-%d", index),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"index": {IntValue: &number}, "model": {StringValue: &model}},
			Capacity:   map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
		}
		if index%2 == 1 {
			device.Taints = []resourcev1.DeviceTaint{{Key: "sla", Value: "980", Effect: "NoSchedule"}}
		}
		slice.Spec.Devices = append(slice.Spec.Devices, device)
	}
	return slice
}

func selector(expression string) []resourcev1.DeviceSelector {
	return []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
}

func deviceClass() *resourcev1.DeviceClass {
	spec := resourcev1.DeviceClassSpec{Selectors: selector(fmt.Sprintf("device.driver == '%s'", driver))}
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: spec}
}

// claimTemplate returns a template for one GPU; where claims are diverse, its selector and tolerations are its own.
func claimTemplate(i int) *resourcev1.ResourceClaimTemplate {
	expression := fmt.Sprintf("device.attributes['%s'].model == 'LATEST-GPU-MODEL'", driver)
	tolerations := []resourcev1.DeviceToleration{{Key: "sla", Operator: "Equal", Value: "980", Effect: "NoSchedule"}}
	if *diverse {
		expression += fmt.Sprintf(" && device.attributes['%s'].index != %d", driver, i%devicesPerNode)
		expression += fmt.Sprintf(" && device.capacity['%s'].memory.compareTo(quantity('%dMi')) > 0", driver, 1000+i)
		tolerations = append(tolerations, resourcev1.DeviceToleration{Key: fmt.Sprintf("other-%d", i), Operator: "Exists"})
	}
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("gpu-%d", i)}}
	template.Spec.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: driver, Selectors: selector(expression), Tolerations: tolerations,
	}}}
	return template
}

// withClaim makes a pod's first container use a GPU of its own.
func withClaim(spec *corev1.PodSpec, i int) {
	template := "gpu-0"
	if *diverse {
		template = fmt.Sprintf("gpu-%d", i%claimTemplates)
	}
	spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
	spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
}
