package alerting

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	amlabels "github.com/prometheus/alertmanager/pkg/labels"
	"github.com/prometheus/alertmanager/silence"
	"github.com/prometheus/alertmanager/silence/silencepb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// notCreated begins the errors of a silence in the words of Alertmanager.
const notCreated = "Failed to create silence"

type apiSilence struct {
	ID          string            `json:"id,omitempty"`
	Status      *apiSilenceStatus `json:"status,omitempty"`
	UpdatedAt   *time.Time        `json:"updatedAt,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Comment     string            `json:"comment"`
	CreatedBy   string            `json:"createdBy"`
	EndsAt      time.Time         `json:"endsAt"`
	Matchers    []apiMatcher      `json:"matchers"`
	StartsAt    time.Time         `json:"startsAt"`
}

type apiSilenceStatus struct {
	State silence.SilenceState `json:"state"`
}

type apiMatcher struct {
	IsEqual *bool  `json:"isEqual,omitempty"` // nil is true
	IsRegex bool   `json:"isRegex"`
	Name    string `json:"name"`
	Value   string `json:"value"`
}

// matcherTypes are the types of matchers, by whether they negate and whether they are
// regular expressions.
var matcherTypes = map[[2]bool]silencepb.Matcher_Type{
	{false, false}: silencepb.Matcher_EQUAL, {false, true}: silencepb.Matcher_REGEXP,
	{true, false}: silencepb.Matcher_NOT_EQUAL, {true, true}: silencepb.Matcher_NOT_REGEXP,
}

func toSilence(p *silencepb.Silence) apiSilence {
	updated := p.UpdatedAt.AsTime()
	s := apiSilence{
		ID: p.Id, UpdatedAt: &updated, Annotations: p.Annotations, Comment: p.Comment, CreatedBy: p.CreatedBy,
		StartsAt: p.StartsAt.AsTime(), EndsAt: p.EndsAt.AsTime(), Matchers: []apiMatcher{},
	}
	s.Status = &apiSilenceStatus{silence.CurrentState(s.StartsAt, s.EndsAt)}
	if len(p.MatcherSets) == 0 {
		return s
	}
	for _, m := range p.MatcherSets[0].Matchers { // the API makes one set
		for kind, t := range matcherTypes {
			if t == m.Type {
				equal := !kind[0]
				s.Matchers = append(s.Matchers, apiMatcher{&equal, kind[1], m.Name, m.Pattern})
			}
		}
	}
	return s
}

func (a *api) silences(r *http.Request) (any, error) {
	want, err := matchers(r, "filter")
	if err != nil {
		return nil, err
	}
	order := []silence.SilenceState{silence.SilenceStateActive, silence.SilenceStatePending, silence.SilenceStateExpired}
	var states []silence.SilenceState
	for _, s := range order {
		wanted, err := flag(r, string(s))
		if err != nil {
			return nil, err
		}
		if wanted {
			states = append(states, s)
		}
	}
	list, _, err := a.e.silences.Query(r.Context(), silence.QState(states...))
	if err != nil {
		return nil, err
	}
	out := []apiSilence{}
	for _, p := range list {
		if slices.ContainsFunc(p.MatcherSets, func(set *silencepb.MatcherSet) bool { return hasMatchers(set, want) }) {
			out = append(out, toSilence(p))
		}
	}
	slices.SortFunc(out, func(x, y apiSilence) int {
		if c := cmp.Compare(slices.Index(order, x.Status.State), slices.Index(order, y.Status.State)); c != 0 {
			return c
		}
		switch x.Status.State { // what happens next comes first, of what is over the latest
		case silence.SilenceStatePending:
			return x.StartsAt.Compare(y.StartsAt)
		case silence.SilenceStateExpired:
			return y.EndsAt.Compare(x.EndsAt)
		}
		return x.EndsAt.Compare(y.EndsAt)
	})
	return out, nil
}

// hasMatchers reports whether each matcher of a filter is among those of a silence.
func hasMatchers(set *silencepb.MatcherSet, want []*amlabels.Matcher) bool {
	for _, w := range want {
		kind := [2]bool{w.Type == amlabels.MatchNotEqual || w.Type == amlabels.MatchNotRegexp, w.Type == amlabels.MatchRegexp || w.Type == amlabels.MatchNotRegexp}
		if !slices.ContainsFunc(set.Matchers, func(m *silencepb.Matcher) bool {
			return m.Name == w.Name && m.Pattern == w.Value && m.Type == matcherTypes[kind]
		}) {
			return false
		}
	}
	return true
}

func notFound(err error) error { return statusError{http.StatusNotFound, err} }

func (a *api) silence(r *http.Request) (any, error) {
	list, _, err := a.e.silences.Query(r.Context(), silence.QIDs(r.PathValue("id")))
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, notFound(silence.ErrNotFound)
	}
	return toSilence(list[0]), nil
}

func (a *api) expireSilence(r *http.Request) (any, error) {
	err := a.e.silences.Expire(r.Context(), r.PathValue("id"))
	a.e.memory.snapshot("silences", a.e.silences.Snapshot)
	if errors.Is(err, silence.ErrNotFound) {
		return nil, notFound(err)
	}
	return nil, err
}

func (a *api) postSilence(r *http.Request) (any, error) {
	var in apiSilence
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return nil, badRequest(err)
	}
	p := &silencepb.Silence{
		Id: in.ID, StartsAt: timestamppb.New(in.StartsAt), EndsAt: timestamppb.New(in.EndsAt),
		Comment: in.Comment, CreatedBy: in.CreatedBy, Annotations: in.Annotations, MatcherSets: []*silencepb.MatcherSet{{}},
	}
	for _, m := range in.Matchers {
		kind := matcherTypes[[2]bool{m.IsEqual != nil && !*m.IsEqual, m.IsRegex}]
		p.MatcherSets[0].Matchers = append(p.MatcherSets[0].Matchers, &silencepb.Matcher{Name: m.Name, Pattern: m.Value, Type: kind})
	}
	switch {
	case in.StartsAt.IsZero() || in.EndsAt.IsZero():
		return nil, badRequest(errors.New("a silence needs startsAt and endsAt"))
	case !in.StartsAt.Before(in.EndsAt):
		return nil, badRequest(fmt.Errorf("%s: start time must be before end time", notCreated))
	case in.EndsAt.Before(time.Now()):
		return nil, badRequest(fmt.Errorf("%s: end time can't be in the past", notCreated))
	}
	err := a.e.silences.Set(r.Context(), p)
	a.e.memory.snapshot("silences", a.e.silences.Snapshot)
	switch {
	case errors.Is(err, silence.ErrNotFound):
		return nil, notFound(err)
	case err != nil:
		return nil, badRequest(fmt.Errorf("silence: %w", err))
	}
	return map[string]string{"silenceID": p.Id}, nil
}
