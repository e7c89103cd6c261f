package page

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/llm-prober/llm_prober/e2e/programs"
)

// The report is one file that a browser opens without a server.
func TestReport(t *testing.T) {
	browser := findBrowser(t)
	folder := t.TempDir()
	tool := programs.Probetool(t, folder)
	for _, c := range []struct {
		experiment, levels string
		charts             []string // some of those it must have
	}{
		{"concurrency", "1,8,32", []string{"Output tokens per second", "Time to first token", "TTFT of each request, c=32"}},
		{"rate", "2,12", []string{"Time to first token", "Queue at 12/s"}},
	} {
		t.Run(c.experiment, func(t *testing.T) {
			dir := filepath.Join(folder, c.experiment)
			programs.Run(t, folder, tool, "simulate", c.experiment, "--quiet", "--levels="+c.levels, "--requests=200", "--dir="+dir)
			address := "file://" + filepath.Join(dir, "report.html")
			page := browser.open(t)
			page.load(t, address)
			t.Run("every chart has a name", func(t *testing.T) { namesOfCharts(t, page, c.charts) })
			t.Run("tables of exact values open", func(t *testing.T) { tablesOpen(t, page) })
			t.Run("is as dark as the screen", func(t *testing.T) { lightAndDark(t, page) })
			t.Run("fits a telephone", func(t *testing.T) { fitsTelephone(t, page) })
			t.Run("prints", func(t *testing.T) { prints(t, page) })
			if lines := page.complaints(); len(lines) > 0 {
				t.Errorf("on the console: %q", lines)
			}
			if asked := page.requests(); !slices.Equal(asked, []string{address}) {
				t.Errorf("the page asked for %q, want itself alone", asked)
			}
		})
	}
}

// namesOfCharts asks for what a screen reader is told.
func namesOfCharts(t *testing.T, page *tab, want []string) {
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name struct{ Value any }
		}
	}
	page.call(t, "Accessibility.getFullAXTree", nil, &tree)
	var names []string
	for _, n := range tree.Nodes {
		if role := n.Role.Value; !n.Ignored && (role == "image" || role == "img") {
			name, _ := n.Name.Value.(string)
			names = append(names, name)
		}
	}
	var charts int
	page.eval(t, `document.querySelectorAll('svg.chart').length`, &charts)
	if len(names) < charts || charts == 0 {
		t.Errorf("%d charts, and %d pictures for those who cannot see: %q", charts, len(names), names)
	}
	if slices.Contains(names, "") {
		t.Errorf("a chart has no name: %q", names)
	}
	for _, name := range want {
		if !slices.Contains(names, name) {
			t.Errorf("no chart is called %q: %q", name, names)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) < charts {
		t.Errorf("%d charts share names: %q", charts, names)
	}
}

// tablesOpen opens each with a click, as readers do.
func tablesOpen(t *testing.T, page *tab) {
	var tables []struct {
		Title         string
		Before, After float64 // height, px
		Rows          int
	}
	page.eval(t, `[...document.querySelectorAll('details')].map(details => {
		const table = details.querySelector('table'), height = () => table.checkVisibility() ? table.getBoundingClientRect().height : 0
		const before = height(), summary = details.querySelector('summary')
		summary.click()
		return {Title: summary.textContent, Before: before, After: height(), Rows: table.tBodies[0].rows.length}
	})`, &tables)
	var charts int
	page.eval(t, `document.querySelectorAll('svg.chart').length`, &charts)
	if len(tables) < charts {
		t.Errorf("%d charts, and %d tables", charts, len(tables))
	}
	for _, one := range tables {
		if one.Title != "Values" || one.Before != 0 || one.After < 20 || one.Rows == 0 {
			t.Errorf("%+v: want a table of exact values that shows after a click alone", one)
		}
	}
}

func lightAndDark(t *testing.T, page *tab) {
	light, dark := page.brightness(t, "light"), page.brightness(t, "dark")
	if light < 0.75 || dark > 0.25 {
		t.Errorf("of white, the page is %.2f when light and %.2f when dark", light, dark)
	}
}

// brightness is the mean of a screenshot, 1 for white.
func (s *tab) brightness(t *testing.T, scheme string) float64 {
	t.Helper()
	s.call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	var shot struct{ Data []byte }
	s.call(t, "Page.captureScreenshot", nil, &shot)
	if keep != "" {
		programs.Write(t, filepath.Join(keep, "report-"+scheme+".png"), string(shot.Data))
	}
	picture, err := png.Decode(bytes.NewReader(shot.Data))
	if err != nil {
		t.Fatal(err)
	}
	return meanOf(picture)
}

func meanOf(picture image.Image) float64 {
	sum, n, area := 0.0, 0, picture.Bounds()
	for y := area.Min.Y; y < area.Max.Y; y += 4 {
		for x := area.Min.X; x < area.Max.X; x += 4 {
			r, g, b, _ := picture.At(x, y).RGBA()
			sum += float64(r+g+b) / (3 * 0xffff)
			n++
		}
	}
	return sum / float64(n)
}

// fitsTelephone looks at a screen of 390 px: what is wider must scroll in a box of its own, with all tables open.
func fitsTelephone(t *testing.T, page *tab) {
	const width = 390
	page.call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": true}, nil)
	defer page.call(t, "Emulation.clearDeviceMetricsOverride", nil, nil)
	var widths struct{ Screen, Document, Body, Scrolled float64 }
	page.eval(t, `scrollTo(1000, 0), {Screen: innerWidth, Document: document.documentElement.scrollWidth, Body: document.body.scrollWidth, Scrolled: scrollX}`, &widths)
	if widths.Screen != width || widths.Document > width || widths.Body > width || widths.Scrolled != 0 {
		t.Errorf("on %d px: %+v", width, widths)
	}
}

var pdfPage = regexp.MustCompile(`/Type\s*/Page\b`)

func prints(t *testing.T, page *tab) {
	var printed struct{ Data []byte }
	page.call(t, "Page.printToPDF", map[string]any{"preferCSSPageSize": true, "printBackground": true}, &printed)
	if keep != "" {
		if err := os.WriteFile(filepath.Join(keep, "report.pdf"), printed.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	pages := len(pdfPage.FindAll(printed.Data, -1))
	if !bytes.HasPrefix(printed.Data, []byte("%PDF-")) || pages < 2 {
		t.Errorf("%d bytes of %.8q with %d pages, want more than one", len(printed.Data), printed.Data, pages)
	}
}
