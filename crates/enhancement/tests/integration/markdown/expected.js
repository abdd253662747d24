// Writes expected.txt: what markdownlint 0.25.1 with the community's settings
// finds in the documents beside this file.
//
//     npm install markdownlint@0.25.1 && node expected.js
const fs = require("fs");
const markdownlint = require("markdownlint");

const off = [
  "single-title", "no-hard-tabs", "no-bare-urls", "commands-show-output", "no-emphasis-as-heading", "no-inline-html",
  "ul-style", "ol-prefix", "blanks-around-fences", "blanks-around-headings", "blanks-around-lists",
  "single-trailing-newline", "no-multiple-blanks", "no-trailing-spaces", "emphasis-style", "strong-style",
  "no-space-in-emphasis",
];
const config = { "default": true, "line-length": { "line_length": 400 } };
off.forEach((rule) => { config[rule] = false; });

const lines = [];
for (const file of fs.readdirSync(__dirname).filter((name) => name.endsWith(".md")).sort()) {
  const text = fs.readFileSync(`${__dirname}/${file}`, "utf8");
  const found = markdownlint.sync({ "strings": { file: text }, config, "resultVersion": 3 }).file;
  const keys = found.map((it) => [it.lineNumber, it.ruleNames[0]]);
  keys.sort((a, b) => a[0] - b[0] || (a[1] < b[1] ? -1 : a[1] > b[1] ? 1 : 0));
  lines.push(...keys.map(([line, rule]) => `${file}:${line} ${rule}`));
}
fs.writeFileSync(`${__dirname}/expected.txt`, lines.join("\n") + "\n");
