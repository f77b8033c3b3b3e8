package api

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"reckon/web/client"
)

// writeCSV sends rows as a CSV file with the given name. The header Reckon-Missing lists the missing parts of a partial
// answer, because CSV has no place for them.
func writeCSV[T any](w http.ResponseWriter, name string, rows []T, missing []string) error {
	var body bytes.Buffer
	if err := client.WriteCSV(&body, rows); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", `inline; filename="reckon-`+name+`.csv"`)
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Add("Vary", "Accept")
	if len(missing) > 0 {
		h.Set("Reckon-Missing", strings.Join(missing, "; "))
	}
	_, _ = w.Write(body.Bytes()) // the client has disconnected
	return nil
}
