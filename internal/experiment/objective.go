package experiment

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Indicators lists the latencies that an objective can bound, in the order in which they are shown.
func Indicators() []Indicator { return []Indicator{TTFT, TTFTFromSchedule, ITL, TPOT, Duration} }

// ParseObjectives reads objectives such as "ttft_p95=1s". The error tells everything that is wrong with them.
func ParseObjectives(texts []string) ([]Objective, error) {
	var objectives []Objective
	var errs []error
	for _, text := range texts {
		o, err := ParseObjective(text)
		if err == nil && slices.ContainsFunc(objectives, o.same) {
			err = fmt.Errorf("objective %q: %s is bounded twice", text, o.Name())
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		objectives = append(objectives, o)
	}
	return objectives, errors.Join(errs...)
}

// ParseObjective reads an objective: a latency, a percentile and a duration, as "ttft_p95=1s".
func ParseObjective(text string) (Objective, error) {
	name, threshold, ok := strings.Cut(text, "=")
	at := strings.LastIndex(name, "_p")
	if !ok || at < 0 {
		return Objective{}, fmt.Errorf(`objective %q: not of the form "ttft_p95=1s": a latency (%s), a percentile and a duration`,
			text, names())
	}
	o := Objective{Indicator: Indicator(name[:at])}
	var errs []error
	if !slices.Contains(Indicators(), o.Indicator) {
		errs = append(errs, fmt.Errorf("unknown latency %q: it can be %s", o.Indicator, names()))
	}
	var err error
	if o.Quantile, err = parsePercentile(name[at+len("_p"):]); err != nil {
		errs = append(errs, err)
	}
	if o.Threshold, err = time.ParseDuration(threshold); err != nil || o.Threshold <= 0 {
		errs = append(errs, fmt.Errorf(`%q is not a duration above 0, as "800ms" or "1.5s"`, threshold))
	}
	if err := errors.Join(errs...); err != nil {
		return Objective{}, fmt.Errorf("objective %q: %w", text, err)
	}
	return o, nil
}

func parsePercentile(text string) (quantile float64, err error) {
	percent, err := strconv.ParseFloat(text, 64)
	if err != nil || !(percent > 0 && percent < 100) {
		return 0, fmt.Errorf(`%q is not a percentile between 0 and 100, as 50, 95 or 99.9`, text)
	}
	return percent / 100, nil
}

func names() string {
	var list []string
	for _, indicator := range Indicators() {
		list = append(list, string(indicator))
	}
	return strings.Join(list, ", ")
}

// String is what [ParseObjective] reads.
func (o Objective) String() string { return o.Name() + "=" + o.Threshold.String() }

// Name is the objective without its threshold: "ttft_p95".
func (o Objective) Name() string { return fmt.Sprintf("%s_p%s", o.Indicator, Percent(o.Quantile)) }

// Percent writes 0.95 as "95" and 0.999 as "99.9".
func Percent(quantile float64) string {
	return strconv.FormatFloat(math.Round(quantile*1e8)/1e6, 'f', -1, 64)
}

func (o Objective) same(other Objective) bool { return o.Name() == other.Name() }

// MarshalText implements encoding.TextMarshaler.
func (o Objective) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *Objective) UnmarshalText(text []byte) (err error) {
	*o, err = ParseObjective(string(text))
	return err
}

// Title is how a latency is called in sentences.
func (i Indicator) Title() string {
	switch i {
	case Duration:
		return "duration"
	case TTFTFromSchedule:
		return "TTFT from schedule"
	}
	return strings.ToUpper(string(i))
}
