// Command clientgo gives a control plane the work of real clients: typed objects, client-go's default content types, and
// informers for what comes of them. It prints one JSON document: what was measured, and its own processor time.
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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

var (
	kubeconfig = flag.String("kubeconfig", "", "the control plane")
	token      = flag.String("token", "", "instead of the kubeconfig's credentials")
	mode       = flag.String("mode", "create", "what is done: nodes, devices, create, placed, bound, claims, get, list, lists, informer, watch, deployments, jobs, ready, evict or rollout")
	count      = flag.Int("n", 100, "pods; of nodes and devices: nodes")
	nodes      = flag.Int("nodes", 1, "nodes that pods are placed on, or that are tainted")
	watchers   = flag.Int("watchers", 20, "informers that see every event")
	stored     = flag.Int("stored", 1, "pods that are read in turn")
	workers    = flag.Int("workers", 32, "requests at a time")
	diverse    = flag.Bool("diverse", false, "no two pods are alike")
	prefix     = flag.String("prefix", "p", "of names")
	timeout    = flag.Duration("timeout", 5*time.Minute, "until the work is done")
	ctx        = context.Background()
)

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// parallel calls do for 0 to n-1 from all workers and returns how many seconds that took.
func parallel(n int, do func(i int) error) float64 {
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
	return time.Since(began).Seconds()
}

func cpu() float64 {
	var usage syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

// pods returns the pods of this run, made before the clock starts.
func pods() []*corev1.Pod {
	scheduler := ""
	switch *mode {
	case "create", "watch", "placed":
		scheduler = noScheduler
	}
	rng := rand.New(rand.NewSource(int64(len(*prefix)) + int64((*prefix)[0])))
	made := make([]*corev1.Pod, *count)
	for i := range made {
		meta, spec := podOf(rng, scheduler)
		meta.Name = fmt.Sprintf("%s-%d", *prefix, i)
		switch *mode {
		case "claims":
			withClaim(&spec, i)
		case "placed":
			atOnce := int64(0)
			spec.NodeName, spec.TerminationGracePeriodSeconds = fmt.Sprintf("node-%d", i%*nodes), &atOnce
		}
		made[i] = &corev1.Pod{ObjectMeta: meta, Spec: spec}
	}
	return made
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
	var made []*corev1.Pod
	switch *mode {
	case "create", "placed", "bound", "claims", "watch", "deployments", "jobs":
		made = pods()
	}
	create := func() float64 {
		return parallel(len(made), func(i int) error {
			_, err := client.CoreV1().Pods(namespace).Create(ctx, made[i], metav1.CreateOptions{})
			return err
		})
	}
	spent, seconds := cpu(), 0.0
	switch *mode {
	case "nodes":
		seconds = makeNodes(client, *count)
	case "devices":
		seconds = makeDevices(client, *count)
	case "create", "placed":
		seconds = create()
	case "bound", "claims":
		seconds = bound(client, *count, func() { create() })
	case "list":
		seconds = list(client)
	case "get":
		seconds = parallel(*count, func(i int) error {
			_, err := client.CoreV1().Pods(namespace).Get(ctx, fmt.Sprintf("%s-%d", *prefix, i%*stored), metav1.GetOptions{})
			return err
		})
	case "lists":
		seconds = parallel(*count, func(int) error {
			_, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
			return err
		})
	case "informer":
		informer, took := syncedPods(client)
		if held := len(informer.GetStore().List()); held < *count {
			must(fmt.Errorf("an informer of %d pods", held))
		}
		seconds = took
	case "watch":
		seconds = watched(client, func() { create() })
	case "deployments":
		seconds = bound(client, *count/10*10, func() { makeDeployments(client, made) })
	case "jobs":
		seconds = bound(client, *count/10*10, func() { makeJobs(client, made) })
	case "ready":
		seconds = ready(client)
	case "evict":
		seconds = evict(client)
	case "rollout":
		seconds = rollOut(client)
	default:
		must(fmt.Errorf("no mode %q", *mode))
	}
	must(json.NewEncoder(os.Stdout).Encode(map[string]float64{"seconds": seconds, "cpu": cpu() - spent}))
}
