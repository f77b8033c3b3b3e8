// Package catalogue sees the database that keeps its rows.
package catalogue

import (
	_ "reckon/catalogue/database"
	_ "reckon/store"
)
