// Package explore is the web page on which an engineer, an analyst and a privacy officer look at
// what the mechanism does. It serves the page, which is embedded, and a JSON API below it; API.md
// describes both.
//
// A page has one or two sides of the wall. Truth has raw fixes, and everything about them is
// recomputed by the library itself, with a seeded stream that protects nothing: it is for the owner
// of the fixes. Public follows a sanitized topic and knows nothing else but the public model, so no
// true fix can be in what it answers, except for what a model without differential privacy tells
// about the traces that it was trained on. A Server has no way to a side that it was not given.
//
// Files: truth.go the fixes and the models; settings.go the knobs of a request; course.go a user's
// fixes under them; step.go one step, taken apart; view.go the part of the map that a page looks
// at; past.go what later records tell about them; driven.go what all users do on many days;
// typical.go what may be published of that; shelf.go what is kept of answers; public.go a sanitized
// topic; outline.go lines below the maps; field.go how masses on the map are sent; server.go who
// may ask and how; handlers.go the answers.
//
// What is served is in the folder page/site. "make page" builds its app.js from page/src.
package explore
