// Package modelview shows mobility models: what a model or a folder of personal models holds, how
// two models differ, what is suspicious about one, how well one fits, and maps of it.
package modelview
