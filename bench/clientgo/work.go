package main

import (
	"fmt"
	"sort"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const podsOfWorkload = 10

// makeNodes creates nodes without the taint that admission gives to new ones, and the account that pods need.
func makeNodes(client kubernetes.Interface, n int) float64 {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	if _, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		must(err)
	}
	return parallel(n, func(i int) error {
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
	})
}

// makeDevices creates the GPUs of n nodes, their class and the templates of claims.
func makeDevices(client kubernetes.Interface, n int) float64 {
	_, err := client.ResourceV1().DeviceClasses().Create(ctx, deviceClass(), metav1.CreateOptions{})
	must(err)
	templates := 1
	if *diverse {
		templates = claimTemplates
	}
	parallel(templates, func(i int) error {
		_, err := client.ResourceV1().ResourceClaimTemplates(namespace).Create(ctx, claimTemplate(i), metav1.CreateOptions{})
		return err
	})
	return parallel(n, func(i int) error {
		_, err := client.ResourceV1().ResourceSlices().Create(ctx, devices(i), metav1.CreateOptions{})
		return err
	})
}

// syncedPods returns an informer of all pods that has synced, and how many seconds that took.
func syncedPods(client kubernetes.Interface) (cache.SharedIndexInformer, float64) {
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	began := time.Now()
	factory.Start(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	return informer, time.Since(began).Seconds()
}

// handle calls do with every pod an informer shows, at first and after each change.
func handle(informer cache.SharedIndexInformer, do func(pod *corev1.Pod)) {
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object interface{}) { do(object.(*corev1.Pod)) },
		UpdateFunc: func(_, object interface{}) { do(object.(*corev1.Pod)) },
	})
	must(err)
}

// timed calls work and returns the seconds from its beginning until done is closed.
func timed(done <-chan struct{}, work func()) float64 {
	began := time.Now()
	work()
	select {
	case <-done:
	case <-time.After(*timeout):
		must(fmt.Errorf("%s: not done within %s", *mode, *timeout))
	}
	return time.Since(began).Seconds()
}

// bound calls work and returns the seconds from its beginning until an informer has seen n more pods on nodes.
func bound(client kubernetes.Interface, n int, work func()) float64 {
	informer, _ := syncedPods(client)
	before, seen, done := map[string]bool{}, map[string]bool{}, make(chan struct{})
	for _, object := range informer.GetStore().List() {
		before[object.(*corev1.Pod).Name] = true
	}
	handle(informer, func(pod *corev1.Pod) {
		if pod.Spec.NodeName != "" && !before[pod.Name] && !seen[pod.Name] {
			seen[pod.Name] = true
			if len(seen) == n {
				close(done)
			}
		}
	})
	return timed(done, work)
}

// list returns the median of seven lists of all pods, until they are decoded.
func list(client kubernetes.Interface) float64 {
	times := []float64{}
	for i := 0; i < 7; i++ {
		began := time.Now()
		listed, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		must(err)
		if len(listed.Items) < *count {
			must(fmt.Errorf("a list of %d pods", len(listed.Items)))
		}
		times = append(times, time.Since(began).Seconds())
	}
	sort.Float64s(times)
	return times[len(times)/2]
}

// watched calls work and returns the seconds until every informer has seen all its pods.
func watched(client kubernetes.Interface, work func()) float64 {
	var group sync.WaitGroup
	for i := 0; i < *watchers; i++ {
		informer, _ := syncedPods(client)
		group.Add(1)
		before, seen := len(informer.GetStore().List()), 0
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(interface{}) {
			if seen++; seen == before+*count {
				group.Done()
			}
		}})
		must(err)
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	return timed(done, work)
}

// deployment returns a Deployment of pods like this one.
func deployment(pod *corev1.Pod, replicas int32) *appsv1.Deployment {
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}
	template.Labels["set"] = pod.Name
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"set": pod.Name}}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
		Spec:       appsv1.DeploymentSpec{Replicas: &replicas, Selector: labels, Template: template},
	}
}

// makeDeployments creates Deployments of ten pods each.
func makeDeployments(client kubernetes.Interface, pods []*corev1.Pod) {
	parallel(len(pods)/podsOfWorkload, func(i int) error {
		_, err := client.AppsV1().Deployments(namespace).Create(ctx, deployment(pods[i], podsOfWorkload), metav1.CreateOptions{})
		return err
	})
}

// makeJobs creates Jobs of ten pods each.
func makeJobs(client kubernetes.Interface, pods []*corev1.Pod) {
	parallel(len(pods)/podsOfWorkload, func(i int) error {
		replicas, pod := int32(podsOfWorkload), pods[i]
		template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels, Annotations: pod.Annotations}, Spec: pod.Spec}
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Spec: batchv1.JobSpec{Template: template, Parallelism: &replicas, Completions: &replicas}}
		_, err := client.BatchV1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{})
		return err
	})
}

// actAsKubelet makes every pod ready that has a node, as long as the program runs.
func actAsKubelet(client kubernetes.Interface) {
	informer, _ := syncedPods(client)
	bound := make(chan string, 100_000)
	started := map[string]bool{}
	handle(informer, func(pod *corev1.Pod) {
		if pod.Spec.NodeName != "" && !started[pod.Name] && pod.Status.Phase == corev1.PodPending {
			started[pod.Name] = true
			bound <- pod.Name
		}
	})
	condition := `{"type":"%s","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}`
	patch := []byte(fmt.Sprintf(`{"status":{"phase":"Running","conditions":[`+condition+","+condition+","+condition+`]}}`,
		"Initialized", "ContainersReady", "Ready"))
	for w := 0; w < *workers; w++ {
		go func() {
			for name := range bound {
				_, err := client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
				if !apierrors.IsNotFound(err) {
					must(err)
				}
			}
		}()
	}
}

// available calls work and returns the seconds from its beginning until n Deployments of a generation are what they should be.
func available(client kubernetes.Interface, n int, generation int64, work func()) float64 {
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Apps().V1().Deployments().Informer()
	finished, done := map[string]bool{}, make(chan struct{})
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, object interface{}) {
		one := object.(*appsv1.Deployment)
		status, wanted := one.Status, *one.Spec.Replicas
		if one.Generation < generation || status.ObservedGeneration < one.Generation || status.Replicas != wanted {
			return
		}
		if status.UpdatedReplicas == wanted && status.AvailableReplicas == wanted && !finished[one.Name] {
			finished[one.Name] = true
			if len(finished) == n {
				close(done)
			}
		}
	}})
	must(err)
	factory.Start(ctx.Done())
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	return timed(done, work)
}

// ready creates Deployments (one of uniform pods, of 50 pods each where they are diverse) and makes their pods ready.
func ready(client kubernetes.Interface) float64 {
	actAsKubelet(client)
	each := *count
	if *diverse {
		each = min(each, 50)
	}
	templates := pods()
	return available(client, *count/each, 1, func() {
		parallel(*count/each, func(i int) error {
			atOnce := int64(0)
			templates[i].Spec.TerminationGracePeriodSeconds = &atOnce
			_, err := client.AppsV1().Deployments(namespace).Create(ctx, deployment(templates[i], int32(each)), metav1.CreateOptions{})
			return err
		})
	})
}

// rollOut gives every Deployment another image and returns the seconds until all their pods are new and available.
func rollOut(client kubernetes.Interface) float64 {
	actAsKubelet(client)
	listed, err := client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	must(err)
	patch := []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"app:v2"}]`)
	return available(client, len(listed.Items), 2, func() {
		parallel(len(listed.Items), func(i int) error {
			_, err := client.AppsV1().Deployments(namespace).Patch(ctx, listed.Items[i].Name, types.JSONPatchType, patch, metav1.PatchOptions{})
			return err
		})
	})
}

// evict taints the nodes and returns the seconds until none of their pods is left.
func evict(client kubernetes.Interface) float64 {
	informer, _ := syncedPods(client)
	left, done := len(informer.GetStore().List()), make(chan struct{})
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{DeleteFunc: func(interface{}) {
		if left--; left == 0 {
			close(done)
		}
	}})
	must(err)
	patch := []byte(`{"spec":{"taints":[{"key":"flaky","effect":"NoExecute"}]}}`)
	return timed(done, func() {
		parallel(*nodes, func(i int) error {
			_, err := client.CoreV1().Nodes().Patch(ctx, fmt.Sprintf("node-%d", i), types.MergePatchType, patch, metav1.PatchOptions{})
			return err
		})
	})
}
