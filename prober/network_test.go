package prober

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// e14 (prometheus/blackbox_exporter#819): the family can be forced, and a literal address needs no name.
func TestDialledAddress(t *testing.T) {
	for _, c := range []struct {
		base   string
		family IPFamily
		want   string
	}{
		{"http://llm.example:8000", AnyFamily, "tcp llm.example:8000"},
		{"http://llm.example:8000", IPv4, "tcp4 llm.example:8000"},
		{"http://llm.example:8000", IPv6, "tcp6 llm.example:8000"},
		{"http://llm.example", AnyFamily, "tcp llm.example:80"},
		{"http://[::1]:8000", AnyFamily, "tcp [::1]:8000"},
	} {
		synctest.Test(t, func(t *testing.T) {
			target := target()
			target.IPFamily = c.family
			var err error
			if target.URL, err = url.Parse(c.base); err != nil {
				t.Fatal(err)
			}
			s := &fakeServer{}
			if res := probeOnce(t, s, target); !res.OK() {
				t.Errorf("%s: %s (%v)", c.base, outcome(res), res.Err)
			}
			for _, got := range s.dials {
				if got != c.want {
					t.Errorf("%s, %s: dialled %s, want %s", c.base, c.family, got, c.want)
				}
			}
		})
	}
}

// e15 (grafana/alloy#1918, prometheus/blackbox_exporter#190): a proxy in the environment does not catch probes.
func TestEnvironmentsProxyIsIgnored(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:9")
	t.Setenv("http_proxy", "http://127.0.0.1:9")
	t.Setenv("NO_PROXY", "")
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		probeOnce(t, s, target())
		for _, got := range s.dials {
			if got != "tcp llm.example:8000" {
				t.Errorf("dialled %s", got)
			}
		}
	})
}

// Every request has a connection of its own, and leaves none open.
func TestEveryRequestHasItsOwnConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeServer{}
		g := newRig(t, s.dial, target())
		for range 3 {
			g.once(t)
		}
		synctest.Wait()
		if requests := len(s.sent()) + len(s.others); len(s.dials) != requests || s.open != 0 {
			t.Errorf("%d connections for %d requests, %d open", len(s.dials), requests, s.open)
		}
	})
}

// A dial that hangs ends with its probe: net/http would let it go on.
func TestDialEndsWithItsProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Duration, 3) // for the list of models, the tokenizer, the probe
		begin := time.Now()
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			ended <- time.Since(begin)
			return nil, ctx.Err()
		}
		g := newRig(t, dial, target(every(15*time.Second, 3*time.Second, 1)))
		if res := g.once(t); res.Reason != ReasonTimeout {
			t.Errorf("%s (%v)", outcome(res), res.Err)
		}
		for _, want := range []time.Duration{750 * time.Millisecond, 1312500 * time.Microsecond, 3 * time.Second} {
			if took := <-ended; took != want {
				t.Errorf("a dial ended after %v, want %v", took, want)
			}
		}
	})
}

// golang/go#51416: with any no_proxy, loopback addresses are reached directly. That is told.
func TestProxyThatIsNotUsedIsTold(t *testing.T) {
	for _, c := range []struct {
		host, noProxy string
		told          bool
	}{
		{"127.0.0.1:8000", "other.example", true},
		{"localhost:8000", "other.example", true},
		{"llm.example:8000", "llm.example", true},
		{"llm.example:8000", "other.example", false},
		{"127.0.0.1:8000", "", false},
	} {
		target := at("http", c.host, throughProxy("proxy.example:3128"), func(t *Target) { t.HTTP.NoProxy = c.noProxy })
		log := newRig(t, nil, target).logs.String()
		if told := strings.Contains(log, "without its proxy_url") && strings.Contains(log, "proxy=proxy.example:3128"); told != c.told || strings.Contains(log, "proxy-secret") {
			t.Errorf("%s with no_proxy %q: %q", c.host, c.noProxy, log)
		}
	}
}
