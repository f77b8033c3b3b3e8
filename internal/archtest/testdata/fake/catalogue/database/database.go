// Package database keeps rows, and may see the contract and its own folders.
package database

import _ "reckon/store"
