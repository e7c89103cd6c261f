package alerts

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/e2e/programs"
)

func TestPromtool(t *testing.T) {
	promtool := programs.Tool(t, "promtool")
	t.Run("check", func(t *testing.T) {
		programs.Run(t, ".", promtool, "check", "rules", "--lint=all", "--lint-fatal", recordsFile, alertsFile, "../../examples/restart/llm_restart.yml")
	})
	files, err := filepath.Glob("../../alerts/tests/*_test.yml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no unit tests: %v", err)
	}
	files = append(files, "../../examples/restart/llm_restart_test.yml")
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			programs.Run(t, ".", promtool, "test", "rules", file)
		})
	}
}

// TestPromQLOfDocs holds that what a page tells people to ask can be parsed, and names what there is.
func TestPromQLOfDocs(t *testing.T) {
	promtool := programs.Tool(t, "promtool")
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics, records := read(t, "../../docs/metrics.md"), read(t, recordsFile)
	var rules strings.Builder
	rules.WriteString("groups:\n- name: docs\n  rules:\n")
	found := 0
	for _, page := range pages {
		for _, block := range regexp.MustCompile("(?ms)^```promql\n(.*?)^```").FindAllStringSubmatch(read(t, page), -1) {
			found++
			fmt.Fprintf(&rules, "  - record: docs:%d\n    expr: %q\n", found, block[1])
			for _, name := range names(block[1]) {
				if !strings.Contains(metrics, "`"+name+"`") && !strings.Contains(records, "record: "+name) {
					t.Errorf("%s asks for %s, which there is not", page, name)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no page has any: this test looks for nothing")
	}
	file := filepath.Join(t.TempDir(), "docs.yml")
	programs.Write(t, file, rules.String())
	programs.Run(t, ".", promtool, "check", "rules", file)
}

// TestEveryAlertIsRendered holds that the annotations of every alert are compared with what they should read: a
// template that fails shows only when an alert fires.
func TestEveryAlertIsRendered(t *testing.T) {
	files, err := filepath.Glob("../../alerts/tests/*_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		all.WriteString(read(t, file))
	}
	for _, r := range readRules(t, alertsFile) {
		// The alert's own rule is told by its page and, where it has several, by the label that tells them apart.
		rendered := `runbook_url: \S+/` + r.Alert + `\.md`
		if long := r.Labels["long"]; long != "" {
			rendered = `long: ` + long + `, short: ` + r.Labels["short"] + `, job(?s:.{1,900})` + rendered
		}
		if r.Alert == "LLMServerCertificateExpiry" {
			rendered = `severity: ` + r.Labels["severity"] + `, job(?s:.{1,500})` + rendered
		}
		if scope := r.Labels["scope"]; scope != "" {
			rendered = `scope: ` + scope + `, job(?s:.{1,900})` + rendered
		}
		if latency := r.Labels["latency"]; latency != "" {
			rendered = `latency: ` + latency + `, job(?s:.{1,900})` + rendered
		}
		if !regexp.MustCompile(rendered).MatchString(all.String()) {
			t.Errorf("no test renders %s", r.row())
		}
	}
}

// TestMetricsExist holds the names in rules and templates against a real page.
func TestMetricsExist(t *testing.T) {
	// notInDemo are metrics that the demo cannot have.
	notInDemo := map[string]string{
		"llm_probe_tls_certificate_expiry_timestamp_seconds":     "its server speaks plain HTTP",
		"llm_probe_tls_certificate_not_before_timestamp_seconds": "its server speaks plain HTTP",
	}
	folder, address := t.TempDir(), programs.FreeAddress(t)
	programs.Start(t, folder, programs.Prober(t, folder), "--demo", "--demo.address="+programs.FreeAddress(t), "--web.listen-address="+address)
	var page string
	programs.Until(t, time.Minute, "successful probe of the demo", func() bool {
		page = get("http://" + address + "/metrics")
		return strings.Contains(page, "llm_probe_last_success_timestamp_seconds{") && strings.Contains(page, "llm_server_metric_missing{")
	})
	exposed := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^(?:# TYPE )?(llm_\w+)`).FindAllStringSubmatch(page, -1) {
		exposed[match[1]] = true
	}
	docs := read(t, "../../docs/metrics.md")
	for _, r := range slices.Concat(readRules(t, recordsFile), readRules(t, alertsFile)) {
		texts := []string{r.Expr}
		for _, text := range r.Annotations {
			texts = append(texts, strings.Join(regexp.MustCompile(`printf "[^"]*llm_[^"]*"`).FindAllString(text, -1), " "))
		}
		for _, name := range names(strings.Join(texts, " ")) {
			switch {
			case strings.Contains(name, ":"): // a record
			case notInDemo[name] != "" && !strings.Contains(docs, "`"+name+"`"):
				t.Errorf("%s%s names %s, which docs/metrics.md does not know", r.Alert, r.Record, name)
			case notInDemo[name] == "" && !exposed[name]:
				t.Errorf("%s%s names %s, which is not exposed", r.Alert, r.Record, name)
			}
		}
	}
}

// get fetches a page; it is empty if there is none.
func get(url string) string {
	response, err := http.Get(url)
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		return ""
	}
	return string(page)
}
