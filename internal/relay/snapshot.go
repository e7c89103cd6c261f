package relay

import (
	"math"
	"time"
)

// Snapshot is the last that a relay knows of its server.
type Snapshot struct {
	Up      bool // the last scrape succeeded
	Healthy bool // /health last answered 200
	Err     string

	// What the server last said; nil where it is unknown or too old.
	Running, Waiting *float64 // summed over its engines
	KVUsage          *float64 // of its fullest engine, 0 to 1
	// Counters, summed over its engines.
	PromptTokens, GenerationTokens, Preemptions *float64

	EngineType Engine // empty while unknown
	Version    string
	Model      string // as configured, or the first that it lists
	// Launch is what the first engine shows of how it was launched, under the label names of llm_server_info; nil
	// where it shows nothing.
	Launch map[string]string

	SampledAt  time.Time // of the last good scrape; zero before it
	LastChange time.Time
}

// Last tells what the relay knows now. It is safe for concurrent use.
func (r *Relay) Last() Snapshot {
	var snapshot Snapshot
	if h := r.healthy.Load(); h != nil {
		snapshot.Healthy = *h
	}
	st := r.state.Load()
	if st == nil {
		return snapshot
	}
	snapshot.Up, snapshot.Err = st.up, st.err
	snapshot.EngineType, snapshot.Version, snapshot.Model = st.engine, st.version, st.model
	snapshot.SampledAt, snapshot.LastChange = st.scrapedAt, st.changedAt
	if rd := r.current(st); rd != nil {
		snapshot.Running = knownValue(rd.total(familyRunning))
		snapshot.Waiting = knownValue(rd.total(familyWaiting))
		snapshot.KVUsage = knownValue(rd.peak(familyKVUsage))
		snapshot.PromptTokens = knownValue(rd.total(familyPromptTokens))
		snapshot.GenerationTokens = knownValue(rd.total(familyGenerationTokens))
		snapshot.Preemptions = knownValue(rd.total(familyPreemptions))
		snapshot.Launch = rd.launch()
	}
	return snapshot
}

func knownValue(value float64, known bool) *float64 {
	if !known || math.IsNaN(value) {
		return nil
	}
	return &value
}
