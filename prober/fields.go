package prober

import (
	"regexp"
	"slices"
	"time"
)

const (
	// tryFieldAgain is when a field that a server has refused is sent again, by one probe.
	tryFieldAgain = 10 * time.Minute
	// takeRefusals is for how long probes take refusals as they are where leaving fields out did not help, at first.
	takeRefusals = time.Minute
	// refusalsInARow is how many probes must be refused before it counts no more that the server has taken our fields.
	refusalsInARow = 5
)

// tooLongWords tell that the request is too long, whatever fields it has.
var tooLongWords = regexp.MustCompile(`(?i)\bcontext\s+(?:length|window|size)\b`)

// fields is what is known of the fields that a server takes. It has no lock of its own.
type fields struct {
	dropped map[string]time.Time // when each is tried again
	unsure  bool                 // they were dropped without having been named: the next probe has them all
	taken   map[string]bool      // a request with them has succeeded

	refusals int     // probes refused in a row
	retry    backoff // of leaving out fields, where that did not help
}

func newFields() fields {
	return fields{dropped: map[string]time.Time{}, taken: map[string]bool{}}
}

// omission is what one request leaves out of what it could hold.
type omission struct {
	dropped map[string]bool // fields that it does without; never changed
	trial   []string        // fields that the server has refused before and that it has all the same
	added   []string        // those of dropped that were left out after a refusal of this probe
	unnamed bool            // the refusal named no field: all that may be the reason were left out
}

// without returns an omission of more fields, and of those that were on trial.
func (o omission) without(fields ...string) omission {
	dropped := map[string]bool{}
	for field := range o.dropped {
		dropped[field] = true
	}
	for _, field := range slices.Concat(o.trial, fields) {
		dropped[field] = true
	}
	return omission{dropped: dropped, added: slices.Concat(o.added, fields), unnamed: o.unnamed}
}

// sent lists the fields that a request of the workload has and may do without.
func (o omission) sent(w *Workload) []string {
	return slices.DeleteFunc(w.optional(), func(field string) bool {
		return o.dropped[field] || field == fieldContinuousUsage && o.dropped[fieldStreamOptions]
	})
}

// shapeChanged reports whether a request of the workload is another than was asked for.
func (o omission) shapeChanged(w *Workload) bool {
	return o.dropped[fieldTemplate] && w.defaultTemplate()
}

// next is what the next request of a workload leaves out. A field whose time has come is tried by this one alone.
func (f *fields) next(w *Workload, now time.Time) omission {
	o := omission{dropped: map[string]bool{}}
	for field := range f.dropped {
		o.dropped[field] = true
	}
	if len(f.dropped) == 0 {
		return o
	}
	for _, field := range slices.Backward(w.optional()) { // what changes the shape comes first
		due, dropped := f.dropped[field]
		within := field == fieldContinuousUsage && o.dropped[fieldStreamOptions]
		if !dropped || within || !f.unsure && now.Before(due) {
			continue
		}
		o.trial = append(o.trial, field)
		delete(o.dropped, field)
		if !f.unsure {
			f.dropped[field] = now.Add(tryFieldAgain)
			break
		}
	}
	f.unsure = false
	return o
}

// again is what a request leaves out that is sent once more after a refusal; ok is false if it is not. advice is what
// the configuration could do about it. badRequest: the server says that the request is at fault.
func (f *fields) again(w *Workload, o omission, body string, badRequest bool, now time.Time) (more omission, ok bool, advice string) {
	sent := o.sent(w)
	field, advice := refusedField(w, body, sent)
	switch {
	case !badRequest && field == "":
		return o, false, ""
	case len(o.trial) > 0:
		return o.without(), true, "" // as before the trial
	case advice != "" || !f.retry.due(now):
		return o, false, advice
	case field != "":
		return o.without(field), true, ""
	case o.unnamed || tooLongWords.MatchString(body):
		return o, false, ""
	}
	// What the server has taken before is not what it refuses now, as far as it does not say so.
	unknown := slices.DeleteFunc(sent, func(field string) bool { return f.taken[field] })
	if len(unknown) == 0 {
		return o, false, ""
	}
	more = o.without(unknown...)
	more.unnamed = true
	return more, true, ""
}

// refused counts a probe that was refused.
func (f *fields) refused() {
	if f.refusals++; f.refusals >= refusalsInARow {
		clear(f.taken) // it may be another server now
	}
}

// refusedAnyway: the server refused a request without the fields as well.
func (f *fields) refusedAnyway(now time.Time) { f.retry.failed(now, takeRefusals) }

// accepted learns from a success. restored are the fields that the server takes by now, left those that it was found
// to refuse.
func (f *fields) accepted(w *Workload, o omission, now time.Time) (restored, left []string) {
	f.retry = backoff{}
	for _, field := range o.sent(w) {
		f.taken[field] = true
	}
	for _, field := range o.trial {
		if _, dropped := f.dropped[field]; dropped {
			delete(f.dropped, field)
			restored = append(restored, field)
		}
	}
	for _, field := range o.added {
		if _, known := f.dropped[field]; known { // a probe beside this one has learnt it first
			continue
		}
		left = append(left, field)
		delete(f.taken, field)
		f.dropped[field] = now.Add(tryFieldAgain)
		if o.unnamed {
			f.dropped[field], f.unsure = now, true
		}
	}
	return restored, left
}
