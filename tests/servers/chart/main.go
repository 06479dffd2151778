// Renders a chart as Helm does, as far as ours goes: for tests, where Helm is not to be had.
//
//	render CHART RELEASE NAMESPACE [VALUES.yaml…]
//
// Its functions are those of Helm that come from the same library (sprig), and the few that Helm adds. A field that a template names and
// the values lack is an empty string, as in Helm; a template that cannot be read, or a `required` that is not there, ends it with 1.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/BurntSushi/toml"
	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type object = map[string]interface{}

type files struct{ dir string }

func (f files) Get(name string) string {
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		return ""
	}
	return string(text)
}

func (f files) Glob(pattern string) map[string][]byte {
	found := map[string][]byte{}
	paths, err := filepath.Glob(filepath.Join(f.dir, pattern))
	must(err)
	for _, path := range paths {
		name, err := filepath.Rel(f.dir, path)
		must(err)
		found[name] = []byte(f.Get(name))
	}
	return found
}

type versions []string

func (v versions) Has(wanted string) bool {
	for _, version := range v {
		if version == wanted {
			return true
		}
	}
	return false
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

func load(path string) object {
	text, err := os.ReadFile(path)
	must(err)
	read := object{}
	must(yaml.Unmarshal(text, &read))
	return read
}

// Puts what is over values over values, field by field.
func merge(values, over object) {
	for name, wanted := range over {
		inner, isObject := wanted.(object)
		was, wasObject := values[name].(object)
		if isObject && wasObject {
			merge(was, inner)
		} else {
			values[name] = wanted
		}
	}
}

func functions(chart *template.Template) template.FuncMap {
	all := sprig.TxtFuncMap()
	all["include"] = func(name string, data interface{}) (string, error) {
		var text bytes.Buffer
		err := chart.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	all["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	all["fromYaml"] = func(text string) (object, error) {
		read := object{}
		return read, yaml.Unmarshal([]byte(text), &read)
	}
	all["toToml"] = func(value interface{}) (string, error) {
		var text bytes.Buffer
		err := toml.NewEncoder(&text).Encode(value)
		return text.String(), err
	}
	all["required"] = func(why string, value interface{}) (interface{}, error) {
		if value == nil || value == "" {
			return nil, errors.New(why)
		}
		return value, nil
	}
	return all
}

func main() {
	if len(os.Args) < 4 {
		must(errors.New("render CHART RELEASE NAMESPACE [VALUES.yaml…]"))
	}
	dir, about := os.Args[1], load(filepath.Join(os.Args[1], "Chart.yaml"))
	values := load(filepath.Join(dir, "values.yaml"))
	for _, path := range os.Args[4:] {
		merge(values, load(path))
	}
	base := "tenure/templates"
	data := object{
		"Values": values, "Files": files{dir}, "Template": object{"BasePath": base},
		"Chart":        object{"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"]},
		"Release":      object{"Name": os.Args[2], "Namespace": os.Args[3], "Service": "Helm"},
		"Capabilities": object{"APIVersions": versions{}},
	}

	chart := template.New("chart").Option("missingkey=zero")
	chart.Funcs(functions(chart))
	paths, err := filepath.Glob(filepath.Join(dir, "templates", "*"))
	must(err)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		must(err)
		_, err = chart.New(base + "/" + filepath.Base(path)).Parse(string(text))
		must(err)
	}
	for _, path := range paths {
		name := base + "/" + filepath.Base(path)
		var text bytes.Buffer
		must(chart.ExecuteTemplate(&text, name, data))
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(text.String()) != "" {
			fmt.Printf("---\n# Source: %s\n%s\n", name, strings.TrimSpace(text.String()))
		}
	}
}
