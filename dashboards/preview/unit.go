package main

import (
	"fmt"
	"image/color"
	"math"
	"strconv"
	"strings"
)

// format writes a value in one of the units that the dashboards use, about as Grafana does.
func format(v float64, unit string, decimals *int) string {
	if math.IsNaN(v) {
		return "no data"
	}
	switch unit {
	case "s":
		return duration(v)
	case "percentunit":
		return number(v*100, decimals) + "%"
	case "bytes":
		return number(v/(1<<20), nil) + " MiB"
	case "short":
		return number(v, decimals)
	default:
		return number(v, decimals) + " " + unit
	}
}

func duration(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 0.001:
		return number(v*1e6, nil) + " µs"
	case a < 1:
		return number(v*1e3, nil) + " ms"
	case a < 120:
		return number(v, nil) + " s"
	case a < 7200:
		return number(v/60, nil) + " min"
	case a < 172800:
		return number(v/3600, nil) + " h"
	default:
		return number(v/86400, nil) + " d"
	}
}

// number has three digits that count, and no zeros at its end.
func number(v float64, decimals *int) string {
	if decimals != nil {
		return strconv.FormatFloat(v, 'f', *decimals, 64)
	}
	digits := 2
	if v != 0 {
		digits = max(0, min(3, 2-int(math.Floor(math.Log10(math.Abs(v))))))
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// classic is the n-th colour of Grafana's classic palette.
func classic(n int) string {
	palette := []string{"#7EB26D", "#CCA300", "#1F78C1", "#EF843C", "#E24D42", "#6ED0E0", "#BA43A9", "#705DA0", "#508642", "#C15C17", "#890F02", "#0A437C"}
	return palette[n%len(palette)]
}

// paint makes a colour of Grafana's name for it, or of #RRGGBB.
func paint(name string) color.RGBA {
	named := map[string]string{
		"green": "#56A64B", "yellow": "#E0B400", "orange": "#FF780A", "red": "#E02F44", "blue": "#3274D9", "purple": "#A352CC",
		"text": "#333333", "transparent": "#FFFFFF",
	}
	if hex, ok := named[name]; ok {
		name = hex
	}
	c := color.RGBA{A: 255}
	if _, err := fmt.Sscanf(name, "#%02x%02x%02x", &c.R, &c.G, &c.B); err != nil {
		return color.RGBA{128, 128, 128, 255}
	}
	return c
}

// pale is a colour with less of itself.
func pale(c color.RGBA, part float64) color.RGBA {
	mix := func(v uint8) uint8 { return uint8(255 - (255-float64(v))*part) }
	return color.RGBA{mix(c.R), mix(c.G), mix(c.B), 255}
}
