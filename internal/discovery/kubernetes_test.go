package discovery

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/llm-prober/llm_prober/internal/config"
)

// object is an object of Kubernetes in JSON.
type object map[string]any

// cluster is an API server of Kubernetes that answers lists and watches of one namespace.
type cluster struct {
	mu      sync.Mutex
	version int
	objects map[string]map[string]object // by resource and name
	watches map[chan object]string       // the resource of each
	asked   map[string]string            // the header Authorization of the last request, by resource
	refuse  bool
}

// kinds are the resources that are served, with their kind and API.
func kinds() map[string][2]string {
	return map[string][2]string{
		"pods": {"Pod", "v1"}, "services": {"Service", "v1"}, "endpointslices": {"EndpointSlice", "discovery.k8s.io/v1"},
	}
}

func newCluster(t *testing.T) (*cluster, string) {
	t.Helper()
	c := &cluster{objects: map[string]map[string]object{}, watches: map[chan object]string{}, asked: map[string]string{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return c, server.URL
}

// ServeHTTP implements [http.Handler].
func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	kind, ok := kinds()[resource]
	c.mu.Lock()
	c.asked[resource] = r.Header.Get("Authorization")
	if refuse := c.refuse; !ok || refuse || !strings.Contains(r.URL.Path, "/namespaces/llm/") {
		c.mu.Unlock()
		http.Error(w, "forbidden", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	if r.URL.Query().Get("watch") == "" {
		items := []object{}
		for _, o := range c.objects[resource] {
			items = append(items, o)
		}
		_ = encoder.Encode(object{"kind": kind[0] + "List", "apiVersion": kind[1], "metadata": object{"resourceVersion": fmt.Sprint(c.version)}, "items": items})
		c.mu.Unlock()
		return
	}
	// What was there is listed; a watch that asks for it first (sendInitialEvents) is refused, as by an old server.
	if r.URL.Query().Get("sendInitialEvents") != "" {
		c.mu.Unlock()
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = encoder.Encode(object{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": http.StatusUnprocessableEntity})
		return
	}
	events := make(chan object, 100)
	c.watches[events] = resource
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.watches, events)
		c.mu.Unlock()
	}()
	w.(http.Flusher).Flush()
	for {
		select {
		case e := <-events:
			_ = encoder.Encode(e)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// set adds or changes an object, or removes it if it is nil, and tells the watches.
func (c *cluster) set(resource, name string, o object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version++
	before, there := c.objects[resource][name]
	event := object{"type": "ADDED", "object": o}
	switch {
	case o == nil:
		event = object{"type": "DELETED", "object": before}
		delete(c.objects[resource], name)
	case there:
		event["type"] = "MODIFIED"
	}
	if o != nil {
		kind := kinds()[resource]
		o["kind"], o["apiVersion"] = kind[0], kind[1]
		meta, _ := o["metadata"].(object)
		if meta == nil {
			meta = object{}
		}
		meta["name"], meta["namespace"], meta["resourceVersion"] = name, "llm", fmt.Sprint(c.version)
		o["metadata"] = meta
		if c.objects[resource] == nil {
			c.objects[resource] = map[string]object{}
		}
		c.objects[resource][name] = o
	}
	for events, of := range c.watches {
		if of == resource {
			events <- event
		}
	}
}

// pod is one with a label and a container port.
func pod(ip string, labels object) object {
	return object{
		"metadata": object{"labels": labels, "uid": ip},
		"spec":     object{"nodeName": "node-1", "containers": []object{{"name": "vllm", "ports": []object{{"name": "http", "containerPort": 8000, "protocol": "TCP"}}}}},
		"status":   object{"podIP": ip, "phase": "Running", "conditions": []object{{"type": "Ready", "status": "True"}}},
	}
}

// slice is an EndpointSlice of the service vllm, with pods by address and their conditions: ready, serving, terminating.
func slice(conditions map[string][3]bool) object {
	endpoints := []object{}
	for ip, c := range conditions {
		endpoints = append(endpoints, object{
			"addresses":  []string{ip},
			"conditions": object{"ready": c[0], "serving": c[1], "terminating": c[2]},
			"targetRef":  object{"kind": "Pod", "name": "vllm-" + ip, "namespace": "llm"},
		})
	}
	return object{
		"metadata": object{"labels": object{"kubernetes.io/service-name": "vllm"}}, "addressType": "IPv4", "endpoints": endpoints,
		"ports": []object{{"name": "http", "port": 8000, "protocol": "TCP"}},
	}
}

// follower runs a finder for the groups of a configuration in real time.
type follower struct {
	t   *testing.T
	cfg *config.Config
	*Finder
}

func follow(t *testing.T, file, yaml string) *follower {
	t.Helper()
	cfg, err := config.Parse(file, []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{t, cfg, NewFinder(ctx, slog.New(slog.DiscardHandler), (&net.Dialer{}).DialContext)}
	ended := make(chan struct{})
	go func() { f.Run(); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	f.Apply(cfg.Groups)
	return f
}

// until waits for the members that are probed to be those, by name and labels.
func (f *follower) until(want ...string) {
	f.t.Helper()
	slices.Sort(want)
	deadline := time.After(time.Minute)
	for {
		var got []string
		for _, t := range Targets(Resolve(f.cfg, f.Found(), nil)) {
			got = append(got, fmt.Sprintf("%s %s %v", t.Name, t.URL, t.Labels))
		}
		slices.Sort(got)
		if slices.Equal(got, want) {
			return
		}
		select {
		case <-f.Changed():
		case <-deadline:
			f.t.Fatalf("after a minute (-want +found):\n%s\n%+v", cmp.Diff(want, got), Resolve(f.cfg, f.Found(), nil))
		}
	}
}

// A server is probed from when its pod is ready until its pod is told to go, while it still serves what it has.
func TestEndpointSlicesOfKubernetes(t *testing.T) {
	c, url := newCluster(t)
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		c.set("pods", "vllm-"+ip, pod(ip, object{"model": "qwen"}))
	}
	c.set("services", "vllm", object{"spec": object{}})
	c.set("endpointslices", "vllm-abc", slice(map[string][3]bool{"10.0.0.1": {true, true, false}, "10.0.0.2": {false, false, false}}))
	f := follow(t, "config.yml", `
target_groups:
  - name: vllm
    kubernetes_sd_configs:
      - {role: endpointslice, api_server: "`+url+`", namespaces: {names: [llm]}, authorization: {credentials: KEY}}
    relabel_configs:
      - {source_labels: [__meta_kubernetes_endpointslice_endpoint_conditions_ready], regex: "true", action: keep}
      - {source_labels: [__meta_kubernetes_endpointslice_endpoint_conditions_terminating], regex: "true", action: drop}
      - {source_labels: [__meta_kubernetes_pod_name], target_label: target}
      - {regex: __meta_kubernetes_pod_label_(.+), action: labelmap, replacement: pod_$1}
`)
	one, two := "vllm-10.0.0.1 http://10.0.0.1:8000 map[pod_model:qwen]", "vllm-10.0.0.2 http://10.0.0.2:8000 map[pod_model:qwen]"
	f.until(one)
	c.set("endpointslices", "vllm-abc", slice(map[string][3]bool{"10.0.0.1": {true, true, false}, "10.0.0.2": {true, true, false}}))
	f.until(one, two)
	c.set("endpointslices", "vllm-abc", slice(map[string][3]bool{"10.0.0.1": {false, true, true}, "10.0.0.2": {true, true, false}}))
	f.until(two)
	c.set("endpointslices", "vllm-abc", nil)
	f.until()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := c.asked["endpointslices"]; got != "Bearer KEY" {
		t.Errorf("credentials %q", got)
	}
}

func TestPodsOfKubernetes(t *testing.T) {
	c, url := newCluster(t)
	c.set("pods", "a", pod("10.0.0.1", object{"component": "serving-engine"}))
	c.set("pods", "b", pod("10.0.0.2", object{"component": "router"}))
	f := follow(t, "config.yml", `
target_groups:
  - name: vllm
    kubernetes_sd_configs: [{role: pod, api_server: "`+url+`", namespaces: {names: [llm]}}]
    relabel_configs: [{source_labels: [__meta_kubernetes_pod_label_component], regex: serving-engine, action: keep}]
`)
	f.until("10.0.0.1:8000 http://10.0.0.1:8000 map[]")
	c.set("pods", "c", pod("10.0.0.3", object{"component": "serving-engine"}))
	f.until("10.0.0.1:8000 http://10.0.0.1:8000 map[]", "10.0.0.3:8000 http://10.0.0.3:8000 map[]")
	c.set("pods", "a", nil)
	f.until("10.0.0.3:8000 http://10.0.0.3:8000 map[]")
}

func TestKubernetesThatRefusesIsTold(t *testing.T) {
	c, url := newCluster(t)
	c.refuse = true
	f := follow(t, "config.yml", `target_groups: [{name: vllm, kubernetes_sd_configs: [{role: pod, api_server: "`+url+`", namespaces: {names: [llm]}}]}]`)
	for f.Found()["vllm"].Sources[0].Err == "" {
		<-f.Changed()
	}
}
