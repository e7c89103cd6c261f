package bound

import (
	"fmt"
	"time"
)

// Quantity is a number of a stored file by its name there, and the bounds of what can have been measured.
type Quantity struct {
	Name             string
	Value, Low, High float64
}

// Quantities refuses the first number that lies outside its bounds, NaN included.
func Quantities(all ...Quantity) error {
	for _, q := range all {
		if !(q.Value >= q.Low && q.Value <= q.High) { // so that NaN is refused
			return fmt.Errorf("%s is %g, not from %g to %g", q.Name, q.Value, q.Low, q.High)
		}
	}
	return nil
}

// Moment is a time of a stored file by its name there. The zero time was not reached.
type Moment struct {
	Name string
	At   time.Time
}

// InOrder refuses times that run backwards by more than the slack between two clocks, or that no clock has shown.
func InOrder(slack time.Duration, all ...Moment) error {
	var before Moment
	for _, m := range all {
		switch {
		case m.At.IsZero():
			continue
		case m.At.Year() < 1970 || m.At.Year() > 2200:
			return fmt.Errorf("%s is in the year %d", m.Name, m.At.Year())
		case !before.At.IsZero() && before.At.Sub(m.At) > slack:
			return fmt.Errorf("%s is %s before %s", m.Name, before.At.Sub(m.At), before.Name)
		}
		before = m
	}
	return nil
}
