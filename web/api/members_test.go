package api_test

import (
	"strings"
	"testing"

	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

func TestMembers(t *testing.T) {
	b := apitest.Array(now)
	other := b.Details[0]
	other.ID, other.Site = "slurm/8_1", "east"
	again := other
	again.Site = "west"
	bobs := b.Details[0]
	bobs.ID, bobs.Owner = "slurm/9_1", "bob"
	b.Details = append(b.Details, other, again, bobs)
	h := asViewer(api.Options{Backend: b})
	for target, want := range map[string]struct {
		status  int
		members int
		text    string
	}{
		"4": {200, 30, `"kind":"array"`}, "slurm/4": {200, 30, `"waiting":true`}, "slurm/4_[1-2,29]": {200, 3, `"id":"slurm/4_[1-2,29]"`}, "7": {200, 2, `"kind":"heterogeneous"`},
		"8": {409, 0, "name the site: east, west"}, "8?site=west": {200, 1, `"site":"west"`}, "8?site=north": {404, 0, ""},
		"40": {404, 0, "no tasks or components"}, "4_[x]": {400, 0, "numbers of tasks"}, "4_[9000]": {404, 0, ""}, "unit/nginx": {400, 0, "give a number"},
	} {
		w := get(t, h, "/api/reckon/v1/members/"+strings.NewReplacer("[", "%5B", "]", "%5D").Replace(target), "X-Test-Viewer", "alice")
		text := strings.NewReplacer("\n", "", "  ", "", "\": ", "\":").Replace(w.Body.String())
		if w.Code != want.status || !strings.Contains(text, want.text) {
			t.Errorf("%s: status %d, want %d with %s: %.300s", target, w.Code, want.status, want.text, text)
		}
		if want.status == 200 {
			if m := decode[client.Members](t, w, 200); len(m.Members) != want.members {
				t.Errorf("%s: %d members, want %d", target, len(m.Members), want.members)
			}
		}
	}
	for viewer, status := range map[string]int{"alice": 404, "admin": 200, "public": 403} {
		if w := get(t, h, "/api/reckon/v1/members/9", "X-Test-Viewer", viewer); w.Code != status {
			t.Errorf("the array of bob for %s: status %d, want %d", viewer, w.Code, status)
		}
	}
}
