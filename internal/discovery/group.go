// Package discovery finds the targets of target groups: it runs Prometheus' own service discovery, relabels what that
// finds, and tells of each member whether it is probed, or why not.
//
// [Finder] does the finding and knows nothing of who is probed; [Resolve] is a pure function from what was found to
// members.
package discovery

import (
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/llm-prober/llm_prober/internal/config"
)

// State is what became of a member, a value of the label "state" of llm_prober_discovered_targets.
type State string

// Each member is in one of these states.
const (
	Active    State = "active"     // it is probed
	Dropped   State = "dropped"    // by relabel_configs, or it is found twice
	Invalid   State = "invalid"    // what it became cannot be a target
	OverLimit State = "over_limit" // there are target_limit of the group already
)

// States lists the states.
func States() []State { return []State{Active, Dropped, Invalid, OverLimit} }

// Bounds of what is kept of members, for those who show them. Relabelling itself sees everything.
const (
	// MaxMembers is how many members of a group are looked at; those beyond are only counted, as over_limit.
	MaxMembers = 10_000
	// maxLabels and maxValue bound the labels that are kept of a member before relabelling: annotations of Kubernetes
	// have up to 256 KiB.
	maxLabels = 200
	maxValue  = 256 // characters
	// maxReason bounds a reason in characters.
	maxReason = 300
)

// Member is one thing that was found for a group.
type Member struct {
	// Discovered are the labels before relabelling, those of the group's own defaults included. They are bounded and
	// can be shown.
	Discovered labels.Labels
	// Labels are those after relabelling, without those that begin with "__" but with the address and the name of the
	// target. Empty if the member was dropped. They can be shown.
	Labels labels.Labels
	// Target is what is probed; nil unless State is Active.
	Target *config.Target
	State  State
	// Reason says why a member is not Active. It can be shown.
	Reason string
}

// Group is all that was found for a target group, in an order that depends on nothing but what was found.
type Group struct {
	Name    string
	Sources []Source // in the order of the file
	Members []Member
	// Unlisted is how many were found beyond MaxMembers.
	Unlisted int
}

// Count is how many members are in a state.
func (g *Group) Count(s State) int {
	n := 0
	for _, m := range g.Members {
		if m.State == s {
			n++
		}
	}
	if s == OverLimit {
		n += g.Unlisted
	}
	return n
}

// Source is the state of one service discovery of a group.
type Source struct {
	Mechanism string    // static, file, http, dns or kubernetes
	Answered  time.Time // when it last told what there is, changed or not; zero: not yet, and what was found before stays
	// Err is what went wrong since it last answered, or last began; empty: nothing. It can be shown.
	Err   string
	ErrAt time.Time
}
