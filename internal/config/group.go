package config

import (
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/model/relabel"
)

// TargetGroup is a set of targets that Prometheus' service discovery finds.
type TargetGroup struct {
	Name    string
	Sources discovery.Configs // in the order of the keys and of the file; file names are as those of a Target
	Relabel []*relabel.Config
	Limit   int // most targets
}
