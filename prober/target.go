package prober

import (
	"cmp"
	"net/url"
	"strings"
	"time"

	promconfig "github.com/prometheus/common/config"
)

// API is the OpenAI-compatible endpoint that a workload uses.
type API string

// The endpoints a probe can use.
const (
	Chat        API = "chat"        // POST /chat/completions below the API's path
	Completions API = "completions" // POST /completions there
)

// Arrival is the process by which probes become due.
type Arrival string

// The arrival processes.
const (
	Constant Arrival = "constant" // every interval, at a fixed phase
	Poisson  Arrival = "poisson"  // exponential gaps whose mean is the interval
)

// IPFamily restricts which addresses of a host name are dialled.
type IPFamily string

// The address families; AnyFamily tries both (RFC 8305, "happy eyeballs").
const (
	AnyFamily IPFamily = "any"
	IPv4      IPFamily = "ipv4"
	IPv6      IPFamily = "ipv6"
)

// DefaultAPIPath is where OpenAI-compatible servers have their API.
const DefaultAPIPath = "/v1"

// endpoint is the path of an endpoint of the API below the root, such as /models.
func (t *Target) endpoint(name string) string {
	return strings.TrimSuffix(cmp.Or(t.APIPath, DefaultAPIPath), "/") + name
}

// Workload is the fixed shape of a request. Two requests of one workload differ only in the words of
// their prompt, their cache salt and their request id, so that their latencies can be compared for months.
type Workload struct {
	Name         string
	API          API
	PromptTokens int // by the server's own count, chat template included
	OutputTokens int // sent as both the minimum and the maximum
	Seed         int64
	Temperature  float64

	// MaxTokensField is the name of the field that limits the answer: max_tokens or max_completion_tokens.
	MaxTokensField string
	// DropFields names fields that this workload's requests leave out, for servers that refuse them.
	DropFields []string
	// ExtraBody is merged into the request; it must not set a field that the prober sets itself.
	ExtraBody map[string]any
}

// Plan is a workload as one target runs it: when probes are due and how long one may take.
type Plan struct {
	Workload
	Interval     time.Duration
	Arrival      Arrival
	Timeout      time.Duration // of a whole probe, connecting included
	StallTimeout time.Duration // without a token event, once the first has come
	MaxInFlight  int           // at this many, a due probe is missed
}

// Target is one server and all that is asked of it.
type Target struct {
	Name     string
	URL      *url.URL // root of the server, without the path of its API and without user information
	APIPath  string   // of the API below URL, such as /v3; empty: DefaultAPIPath; "/": none
	Host     string   // header Host of every request; empty: that of URL
	Model    string   // empty: the first that the API's /models lists
	Plans    []Plan
	Warmup   int // successful probes that measure nothing, at the start and after a restart
	IPFamily IPFamily
	HTTP     promconfig.HTTPClientConfig
}
