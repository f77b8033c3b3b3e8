package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// fakeProof records the query.
type fakeProof struct{ asked client.ProofQuery }

func (*fakeProof) Last(context.Context) (client.Proof, error) {
	at := now.UTC().Truncate(time.Second)
	return client.Proof{Made: &at, Hours: 2, Accounted: 1, Differences: []client.ProofDifference{}}, nil
}

func (f *fakeProof) Prove(ctx context.Context, q client.ProofQuery) (client.Proof, error) {
	f.asked = q
	return f.Last(ctx)
}

func TestProof(t *testing.T) {
	f := &fakeProof{}
	h := asViewer(api.Options{Backend: apitest.Site(now), Proof: f})
	if p := decode[client.Proof](t, get(t, h, "/api/reckon/v1/proof", "X-Test-Viewer", "support"), 200); p.Hours != 2 {
		t.Errorf("%+v", p)
	}
	if w := get(t, h, "/api/reckon/v1/proof", "X-Test-Viewer", "alice"); w.Code != http.StatusForbidden {
		t.Errorf("a user: %d", w.Code)
	}
	prove := func(who, form string) int {
		r := httptest.NewRequest(http.MethodPost, "/api/reckon/v1/prove", strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Test-Viewer", who)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	if code := prove("admin", "since=2026-01-01&mend=true"); code != 200 || !f.asked.Mend || f.asked.Since.IsZero() {
		t.Errorf("%d, asked %+v", code, f.asked)
	}
	for form, who := range map[string]string{"mend=perhaps": "admin", "from=1": "admin"} {
		if code := prove(who, form); code != http.StatusBadRequest {
			t.Errorf("%s: %d", form, code)
		}
	}
	if code := prove("support", ""); code != http.StatusForbidden {
		t.Errorf("support proves: %d", code)
	}
	if w := get(t, asViewer(api.Options{Backend: apitest.Site(now)}), "/api/reckon/v1/proof", "X-Test-Viewer", "support"); w.Code != http.StatusNotFound {
		t.Errorf("without: %d", w.Code)
	}
}
