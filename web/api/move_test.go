package api_test

import (
	"context"
	"testing"
	"time"

	"reckon/access"
	"reckon/web/api"
	"reckon/web/api/apitest"
	"reckon/web/client"
)

// fakeMoves echoes the query.
type fakeMoves struct{}

func (fakeMoves) Move(ctx context.Context, q client.MoveQuery) (client.MoveList, error) {
	return client.MoveList{Since: q.Since, Until: q.Until, Moves: []client.Move{{Owner: access.From(ctx).Name, Name: q.Shapes, Jobs: q.Owners, Unknown: q.Sites}}}, nil
}

func TestMove(t *testing.T) {
	h := api.New(api.Options{Backend: apitest.Site(now), Moves: fakeMoves{}})
	q := client.MoveQuery{Since: now.Add(-time.Hour).UTC().Truncate(time.Second), Until: now.UTC().Truncate(time.Second), Owners: []string{"alice"}, Sites: []string{"x"}, Shapes: "clusters: []"}
	list := decode[client.MoveList](t, get(t, h, "/api/reckon/v1/move?"+q.Query().Encode()), 200)
	if m := list.Moves[0]; !list.Since.Equal(q.Since) || !list.Until.Equal(q.Until) || m.Name != q.Shapes || m.Jobs[0] != "alice" || m.Unknown[0] != "x" {
		t.Errorf("%+v", list)
	}
	for _, bad := range []string{"since=soon", "since=1h&until=2h", "all=perhaps"} {
		if w := get(t, h, "/api/reckon/v1/move?"+bad); w.Code != 400 {
			t.Errorf("%s: %d", bad, w.Code)
		}
	}
	if w := get(t, api.New(api.Options{Backend: apitest.Site(now)}), "/api/reckon/v1/move"); w.Code != 404 {
		t.Errorf("without: %d", w.Code)
	}
}
