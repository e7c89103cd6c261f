package dashboards_test

import (
	"regexp"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// windows are the variables that stand for a duration. Their stand-ins are told apart again by their length.
func windows() map[string]string {
	return map[string]string{"$window": "1h7m", "$__rate_interval": "1m7s", "$__range": "6h7m"}
}

var windowVariable = regexp.MustCompile(`\$(window|__rate_interval|__range)\b`)

// parse reads an expression as Prometheus would once Grafana has put values for the windows. Other variables stand in
// strings, where they do no harm.
func parse(t *testing.T, expr string) parser.Expr {
	t.Helper()
	filled := windowVariable.ReplaceAllStringFunc(expr, func(v string) string { return windows()[v] })
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(filled)
	if err != nil {
		t.Fatalf("%v\n%s", err, expr)
	}
	return parsed
}
