// Command record evaluates every panel of a committed dashboard over a time range in a running Prometheus and writes
// the answers as JSON, for dashboards/preview to draw.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/llm-prober/llm_prober/e2e/dashboards"
)

func main() {
	url := flag.String("prometheus", "http://127.0.0.1:9090", "base `URL` of the Prometheus to ask")
	folder := flag.String("dashboards", "../dashboards", "`folder` of the dashboards")
	name := flag.String("dashboard", "target", "which `dashboard`: fleet, target, slo or prober")
	target := flag.String("target", ".+", "which `targets`, as a regular expression")
	window := flag.String("window", "5m", "what $window stands for")
	rateInterval := flag.String("rate-interval", "20s", "what $__rate_interval stands for")
	step := flag.Duration("step", 10*time.Second, "time between two points")
	last := flag.Duration("last", 30*time.Minute, "how much to record, up to now or to -until")
	until := flag.Int64("until", time.Now().Unix(), "end of the recording in Unix `seconds`")
	flag.Parse()
	values := dashboards.All(*window, *rateInterval, last.String())
	values["target"] = *target
	if err := record(*url, *folder, *name, values, time.Unix(*until, 0), *last, *step); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func record(url, folder, name string, values dashboards.Values, to time.Time, last, step time.Duration) error {
	all, err := dashboards.Read(folder)
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.File == name {
			recording, err := dashboards.Record(context.Background(), dashboards.Prometheus(url), d, values, to.Add(-last), to, step)
			if err != nil {
				return err
			}
			return json.NewEncoder(os.Stdout).Encode(recording)
		}
	}
	return fmt.Errorf("no dashboard %q in %s", name, folder)
}
