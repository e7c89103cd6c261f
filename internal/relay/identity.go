package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// askAgain is how long an incomplete answer to "who are you?" is believed.
const askAgain = time.Minute

// identity is what the server says of itself outside its metrics page.
type identity struct {
	table   *engineTable // nil while unknown
	version string
	model   string // the first that it lists
	askedAt time.Time
}

// stale reports whether the server should be asked (again).
func (id identity) stale(now time.Time) bool {
	if id.askedAt.IsZero() {
		return true
	}
	complete := id.table != nil && id.version != ""
	return !complete && now.Sub(id.askedAt) >= askAgain
}

// errUnknownEngine: the server is none whose metrics page may be touched.
var errUnknownEngine = errors.New("the server is none of " + engineNames())

// engineNames lists the engines as a text does.
func engineNames() (list string) {
	engines := Engines()[1:] // without auto
	for i, e := range engines {
		switch {
		case i == 0:
		case i == len(engines)-1:
			list += " and "
		default:
			list += ", "
		}
		list += string(e)
	}
	return list
}

// identify asks the server who it is. Its engine is how it signs its models: vLLM, SGLang and llama.cpp write
// their names into owned_by. GET /version would not do, for TensorRT-LLM answers it as vLLM does, and its
// /metrics forgets what it has told. Model and version are asked for as a courtesy: without them the
// relay works all the same. The error is a [scrapeError], or errUnknownEngine: so is a server that has never
// listed its models, whatever it answered instead.
func (r *Relay) identify(ctx context.Context) (identity, error) {
	id := identity{table: engineByName(r.cfg.Engine), askedAt: time.Now()}
	model, ownedBy, err := r.firstModel(ctx)
	id.model = model
	if id.table == nil {
		id.table = engineByOwner(ownedBy)
	}
	if id.table == nil && r.cfg.MetricsURL == nil {
		switch {
		case err == nil:
			err = fmt.Errorf("%w: it signs its models with %.40q", errUnknownEngine, ownedBy)
		case answered(err) && r.identity.table == nil:
			err = fmt.Errorf("%w: asked for its models, %w", errUnknownEngine, err)
		}
		return id, err
	}
	id.version = r.version(ctx, id.table)
	return id, nil
}

// answered reports whether a request failed because of what the server answered. 502, 503 and 504 say that there
// is none behind the address, or that it is still loading.
func answered(err error) bool {
	var (
		status  *statusError
		failure *scrapeError
	)
	if errors.As(err, &status) {
		return status.code < http.StatusBadGateway || status.code > http.StatusGatewayTimeout
	}
	return errors.As(err, &failure) && (failure.reason == reasonParse || failure.reason == reasonTooLarge)
}

// firstModel is the first model that the server lists, and who it says owns it.
func (r *Relay) firstModel(ctx context.Context) (model, ownedBy string, err error) {
	var list struct {
		Data []struct {
			ID      string `json:"id"`
			OwnedBy string `json:"owned_by"`
		} `json:"data"`
	}
	err = r.client.getJSON(ctx, r.cfg.URL.JoinPath(cmp.Or(r.cfg.APIPath, "/v1"), "models"), &list)
	var status *statusError
	if errors.As(err, &status) && (status.code == http.StatusNotFound || status.code == http.StatusNotImplemented) {
		err = fmt.Errorf("%w: it has no %s/models", errUnknownEngine, strings.TrimSuffix(cmp.Or(r.cfg.APIPath, "/v1"), "/"))
	}
	if err != nil || len(list.Data) == 0 {
		return "", "", err
	}
	return r.bound(list.Data[0].ID), list.Data[0].OwnedBy, nil
}

// version asks for the version of the server; empty where it tells none.
func (r *Relay) version(ctx context.Context, table *engineTable) string {
	if table == nil {
		return ""
	}
	for _, path := range table.versionPaths {
		var answer map[string]json.RawMessage
		if r.client.getJSON(ctx, r.cfg.URL.JoinPath(path), &answer) != nil {
			continue
		}
		var version string
		if json.Unmarshal(answer[table.versionKey], &version) == nil {
			return r.bound(version)
		}
	}
	return ""
}

// bound makes a text of the server fit to be a label value. It empties one that is too long.
func (r *Relay) bound(s string) string {
	if len(s) > maxLabelValue {
		return ""
	}
	return r.secrets.Text(s, maxLabelValue)
}
