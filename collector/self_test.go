package collector

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestReloaded(t *testing.T) {
	const ok, at = "llm_prober_config_last_reload_successful", "llm_prober_config_last_reload_success_timestamp_seconds"
	synctest.Test(t, func(t *testing.T) {
		self := NewSelf()
		start := unixSeconds(time.Now())
		for _, step := range []struct {
			name string
			do   func()
			want map[string]float64
		}{
			{"never loaded", func() {}, map[string]float64{}},
			{"a bad file at first", func() { self.Reloaded(false) }, map[string]float64{ok: 0}},
			{"a good one", func() { self.Reloaded(true) }, map[string]float64{ok: 1, at: start + 20}},
			{"a bad one again", func() { self.Reloaded(false) }, map[string]float64{ok: 0, at: start + 20}},
		} {
			step.do()
			got := make(map[string]float64)
			for name, v := range series(t, self) {
				if strings.HasPrefix(name, "llm_prober_config") {
					got[name] = v
				}
			}
			if d := cmp.Diff(step.want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, d)
			}
			time.Sleep(10 * time.Second)
		}
	})
}

func TestSelfTellsOfTheProcess(t *testing.T) {
	all := series(t, NewSelf())
	build := 0
	for name, v := range all {
		if strings.HasPrefix(name, "llm_prober_build_info{") && strings.Contains(name, "goversion=") && v == 1 {
			build++
		}
	}
	if build != 1 {
		t.Errorf("%d series of llm_prober_build_info with value 1, want 1", build)
	}
	for _, name := range []string{"go_goroutines", "process_start_time_seconds", "process_open_fds", "process_resident_memory_bytes"} {
		if all[name] <= 0 {
			t.Errorf("%s = %v, want more than 0", name, all[name])
		}
	}
}
