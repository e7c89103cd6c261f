package vllmsim

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Bucket bounds of prometheus-fastapi-instrumentator.
var (
	highrBounds = []float64{.01, .025, .05, .075, .1, .25, .5, .75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60}
	lowrBounds  = []float64{.1, .5, 1}
)

// httpStats is what the API server counts, the engine aside.
type httpStats struct {
	mu       sync.Mutex
	requests []*requestCount
	routes   []*routeStats
	duration Histogram
	refused  int // for a full queue
}

type requestCount struct {
	route, method, status string
	count                 int
	since                 time.Time
}

type routeStats struct {
	route, method    string
	received, sent   float64 // bytes, by Content-Length alone
	receivedN, sentN int
	duration         Histogram
	since            time.Time
}

func newHTTPStats() *httpStats { return &httpStats{duration: newHistogram(highrBounds)} }

func (h *httpStats) rejected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused++
}

func (h *httpStats) observe(route string, r *http.Request, rec *recorder, took time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.request(route, r.Method, strconv.Itoa(rec.status/100)+"xx").count++
	s := h.route(route, r.Method)
	s.received += float64(max(0, r.ContentLength))
	s.receivedN++
	if n, err := strconv.Atoi(rec.Header().Get("Content-Length")); err == nil {
		s.sent += float64(n)
	}
	s.sentN++
	s.duration.observe(took.Seconds())
	h.duration.observe(took.Seconds())
}

func (h *httpStats) request(route, method, status string) *requestCount {
	for _, c := range h.requests {
		if c.route == route && c.method == method && c.status == status {
			return c
		}
	}
	c := &requestCount{route: route, method: method, status: status, since: time.Now()}
	h.requests = append(h.requests, c)
	return c
}

func (h *httpStats) route(route, method string) *routeStats {
	for _, s := range h.routes {
		if s.route == route && s.method == method {
			return s
		}
	}
	s := &routeStats{route: route, method: method, duration: newHistogram(lowrBounds), since: time.Now()}
	h.routes = append(h.routes, s)
	return s
}
