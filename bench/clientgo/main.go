// Command clientgo gives a control plane the work of real clients: typed objects, client-go's default content types, and
// an informer for what comes of them. It prints one JSON document: what was measured, and its own processor time.
//
// Pods are uniform (one template) or diverse: no two share labels, annotations, images, environment, requests and volumes.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const namespace = "default"

// A scheduler that does not exist: such pods are only created.
const nobody = "none"

var (
	kubeconfig = flag.String("kubeconfig", "", "the control plane")
	token      = flag.String("token", "", "instead of the kubeconfig's credentials")
	mode       = flag.String("mode", "create", "nodes, create, bound, list, informer, deployments or jobs")
	count      = flag.Int("n", 100, "pods, or nodes")
	workers    = flag.Int("workers", 32, "requests at a time")
	diverse    = flag.Bool("diverse", false, "no two pods are alike")
	prefix     = flag.String("prefix", "p", "of names")
	patience   = flag.Duration("patience", 5*time.Minute, "until pods are bound")
	ctx        = context.Background()
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

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

// makeNode creates a node without the taint that admission gives to new ones.
func makeNode(client kubernetes.Interface, i int) error {
	wanted := node(i).Spec.Taints
	made, err := client.CoreV1().Nodes().Create(ctx, node(i), metav1.CreateOptions{})
	for err == nil {
		made.Spec.Taints = wanted
		if _, err = client.CoreV1().Nodes().Update(ctx, made, metav1.UpdateOptions{}); err == nil {
			return nil
		}
		if apierrors.IsConflict(err) {
			made, err = client.CoreV1().Nodes().Get(ctx, made.Name, metav1.GetOptions{})
		}
	}
	return err
}

// parallel calls do for 0 to n-1 from all workers and returns how long that took.
func parallel(n int, do func(i int) error) time.Duration {
	var next int64 = -1
	var group sync.WaitGroup
	began := time.Now()
	for w := 0; w < *workers; w++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := int(atomic.AddInt64(&next, 1)); i < n; i = int(atomic.AddInt64(&next, 1)) {
				must(do(i))
			}
		}()
	}
	group.Wait()
	return time.Since(began)
}

// pods returns an informer of all pods that has synced, and how long that took.
func pods(client kubernetes.Interface) (cache.SharedIndexInformer, time.Duration) {
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	began := time.Now()
	factory.Start(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	return informer, time.Since(began)
}

// bound calls work and returns the seconds from its beginning until an informer has seen n more pods on nodes.
func bound(client kubernetes.Interface, n int, work func()) float64 {
	informer, _ := pods(client)
	before, seen, done := map[string]bool{}, map[string]bool{}, make(chan struct{})
	for _, object := range informer.GetStore().List() {
		before[object.(*corev1.Pod).Name] = true
	}
	look := func(object interface{}) {
		pod := object.(*corev1.Pod)
		if pod.Spec.NodeName != "" && !before[pod.Name] && !seen[pod.Name] {
			seen[pod.Name] = true
			if len(seen) == n {
				close(done)
			}
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: look, UpdateFunc: func(_, object interface{}) { look(object) },
	})
	must(err)
	began := time.Now()
	work()
	select {
	case <-done:
	case <-time.After(*patience):
		must(fmt.Errorf("only some of %d pods were bound within %s", n, *patience))
	}
	return time.Since(began).Seconds()
}

func cpu() float64 {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func main() {
	flag.Parse()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	must(err)
	config.QPS = -1
	if *token != "" {
		config.BearerToken = *token
	}
	client, err := kubernetes.NewForConfig(config)
	must(err)
	scheduler := nobody
	if *mode == "bound" || *mode == "deployments" || *mode == "jobs" {
		scheduler = ""
	}
	rng := rand.New(rand.NewSource(int64(len(*prefix)) + int64((*prefix)[0])))
	made := make([]*corev1.Pod, *count)
	for i := range made {
		meta, spec := podOf(rng, scheduler)
		meta.Name = fmt.Sprintf("%s-%d", *prefix, i)
		made[i] = &corev1.Pod{ObjectMeta: meta, Spec: spec}
	}
	create := func() {
		parallel(*count, func(i int) error {
			_, err := client.CoreV1().Pods(namespace).Create(ctx, made[i], metav1.CreateOptions{})
			return err
		})
	}
	spent, seconds := cpu(), 0.0
	switch *mode {
	case "nodes":
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		if _, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			must(err)
		}
		seconds = parallel(*count, func(i int) error { return makeNode(client, i) }).Seconds()
	case "create":
		began := time.Now()
		create()
		seconds = time.Since(began).Seconds()
	case "bound":
		seconds = bound(client, *count, create)
	case "list":
		times := []float64{}
		for i := 0; i < 7; i++ {
			began := time.Now()
			found, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
			must(err)
			if len(found.Items) < *count {
				must(fmt.Errorf("a list of %d pods", len(found.Items)))
			}
			times = append(times, time.Since(began).Seconds())
		}
		sort.Float64s(times)
		seconds = times[len(times)/2]
	case "informer":
		informer, took := pods(client)
		if found := len(informer.GetStore().List()); found < *count {
			must(fmt.Errorf("an informer of %d pods", found))
		}
		seconds = took.Seconds()
	case "deployments", "jobs": // of ten pods each
		seconds = bound(client, *count/10*10, func() {
			parallel(*count/10, func(i int) error {
				meta, spec := made[i].ObjectMeta, made[i].Spec
				replicas := int32(10)
				template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels, Annotations: meta.Annotations}, Spec: spec}
				if *mode == "jobs" {
					template.Spec.RestartPolicy = corev1.RestartPolicyNever
					job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, Spec: batchv1.JobSpec{Template: template, Parallelism: &replicas, Completions: &replicas}}
					_, err := client.BatchV1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{})
					return err
				}
				template.Labels["set"] = meta.Name
				selector := &metav1.LabelSelector{MatchLabels: map[string]string{"set": meta.Name}}
				deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: meta.Name}, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector, Template: template}}
				_, err := client.AppsV1().Deployments(namespace).Create(ctx, deployment, metav1.CreateOptions{})
				return err
			})
		})
	default:
		must(fmt.Errorf("no mode %q", *mode))
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]float64{"seconds": seconds, "cpu": cpu() - spent}))
}
