// Package page looks at the project's pages with a real browser. The status page loads without a word on the console,
// shows what fails first, and the time line of a probe opens. The report of an experiment needs nothing but its file,
// says its charts to those who cannot see them, and suits a dark screen, a telephone and paper. The tests need Chromium
// (Debian's package of that name); without it they are skipped, unless LLM_PROBER_REQUIRE_CHROMIUM says that it must be
// there.
package page

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/llm-prober/llm_prober/e2e/programs"
)

// keep is a folder for the screenshots; they are thrown away if it is empty.
var keep = os.Getenv("LLM_PROBER_SCREENSHOTS")

func TestPage(t *testing.T) {
	browser := findBrowser(t)
	base := startProber(t)

	t.Run("what fails comes first", func(t *testing.T) {
		dom := browser.load(t, base+"/")
		failing, fine := strings.Index(dom, `>gone</a>`), strings.Index(dom, `>demo</a>`)
		if failing < 0 || fine < 0 || failing > fine {
			t.Errorf("the failing target stands at %d, the one that is well at %d", failing, fine)
		}
		for _, text := range []string{"connection refused", "Why it fails", "First token", "of the budget left"} {
			if !strings.Contains(dom, text) {
				t.Errorf("the page does not say %q", text)
			}
		}
	})
	t.Run("a time line opens", func(t *testing.T) {
		link := regexp.MustCompile(`href="(probe\?target=demo&amp;id=[^"]+)" title`).FindStringSubmatch(browser.load(t, base+"/?target=demo"))
		if link == nil {
			t.Fatal("no link to a probe")
		}
		address := base + "/" + strings.ReplaceAll(link[1], "&amp;", "&")
		dom := browser.load(t, address)
		for _, text := range []string{"<svg", "first token", "queue", "prefill"} {
			if !strings.Contains(strings.ToLower(dom), text) {
				t.Errorf("the time line does not show %q", text)
			}
		}
		browser.shoot(t, address, "probe.png", "1280,900")
	})
	t.Run("pictures", func(t *testing.T) {
		browser.shoot(t, base+"/", "status-failing.png", "1280,1300")
		browser.shoot(t, base+"/?target=demo", "status-phone.png", "390,1400")
		browser.shoot(t, base+"/?target=demo", "status-dark.png", "1280,900", "--blink-settings=preferredColorScheme=0")
	})
}

// startProber starts a prober of the demo's server and of one that is not there, and waits for results of both.
func startProber(t *testing.T) (base string) {
	t.Helper()
	folder := t.TempDir()
	binary := programs.Prober(t, folder)
	own, sim, gone := programs.FreeAddress(t), programs.FreeAddress(t), programs.FreeAddress(t)
	programs.Start(t, folder, binary, "--demo", "--demo.address="+sim, "--web.listen-address="+programs.FreeAddress(t))
	config := filepath.Join(folder, "llm_prober.yml")
	programs.Write(t, config, fmt.Sprintf(`
global: {interval: 500ms, warmup: 1}
targets:
  - {name: demo, url: "http://%s"}
  - {name: gone, url: "http://%s"}
`, sim, gone))
	programs.Start(t, folder, binary, "--config.file="+config, "--web.listen-address="+own)
	base = "http://" + own
	waitFor(t, base+"/api/v1/targets", `"budget_left_ratio"`)
	waitFor(t, base+"/api/v1/targets", `"ttft_seconds"`)
	waitFor(t, base+"/api/v1/results?target=gone", `"reason":"connect"`)
	return base
}

// waitFor asks until the answer, with its blanks left out, contains a text.
func waitFor(t *testing.T, address, text string) {
	t.Helper()
	var last string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		resp, err := http.Get(address)
		if err != nil {
			last = err.Error()
			continue
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		var any json.RawMessage
		if err == nil && json.Unmarshal(body, &any) == nil {
			last = strings.ReplaceAll(string(body), `": `, `":`)
			if strings.Contains(last, text) {
				return
			}
		}
	}
	t.Fatalf("%s never said %s; last: %.500s", address, text, last)
}
