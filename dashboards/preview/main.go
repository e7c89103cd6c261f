// Command preview draws what the panels of a dashboard show, from a recording that e2e/dashboards/record has made:
// each panel's own expressions, evaluated by Prometheus. It is no screenshot of Grafana, and says so in the picture.
//
//	(cd ../e2e && go run ./dashboards/record -dashboard target -last 30m) >target.rec
//	go run ./preview -o target.png target.rec
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
)

func main() {
	out := flag.String("o", "preview.png", "`file` to write")
	titles := flag.String("panels", "", "titles of the panels to draw, separated by semicolons; all if empty")
	width := flag.Int("width", 1200, "width of the picture in `pixels`")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := preview(flag.Arg(0), *out, *titles, *width); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func preview(in, out, titles string, width int) error {
	text, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	var r recording
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("reading %s: %w", in, err)
	}
	if titles != "" {
		if err := r.choose(strings.Split(titles, ";")); err != nil {
			return err
		}
	}
	return r.draw(out, width)
}
