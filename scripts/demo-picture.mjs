// Runs `sluice demo --fast` and draws what it printed as docs/start/demo.svg. Run it with: npm run build && npx node scripts/demo-picture.mjs
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const COLUMNS = 104
const LINE_HEIGHT = 20
const CHARACTER_WIDTH = 8.43
const MARGIN = 20
const root = fileURLToPath(new URL('..', import.meta.url))

/**
 * Splits one printed line into lines of at most COLUMNS characters. Continuations start below the text's own column.
 */
function fold(line) {
  const indent = /^[✓✗] |^  start/.test(line) ? 23 : 7
  const folded = []
  for (let rest = line; rest !== '';) {
    const before = folded.length === 0 ? '' : ' '.repeat(indent)
    const room = COLUMNS - before.length
    const cut = rest.length <= room ? rest.length : rest.lastIndexOf(' ', room)
    folded.push(before + rest.slice(0, cut).trimEnd())
    rest = rest.slice(cut).trimStart()
  }
  return folded.length === 0 ? [''] : folded
}

function escaped(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function tspan(line) {
  if (line.startsWith('$')) return `<tspan class="command">${escaped(line)}</tspan>`
  if (line.startsWith('✓')) return `<tspan class="kept">✓</tspan>${escaped(line.slice(1))}`
  return escaped(line)
}

// A demo that sees a promise broken ends with code 1, which throws here: no picture is drawn of it.
const printed = execFileSync(process.execPath, [`${root}/dist/cli/main.js`, 'demo', '--fast'], {
  encoding: 'utf8',
  env: { ...process.env, NO_COLOR: '1' },
  stdio: ['ignore', 'pipe', 'inherit'],
})
const lines = ['$ npx sluice demo --fast', ...printed.trimEnd().split('\n')].flatMap(fold)
const width = Math.ceil(COLUMNS * CHARACTER_WIDTH) + 2 * MARGIN
const height = lines.length * LINE_HEIGHT + 2 * MARGIN
const text = lines.map(
  (line, i) => `<text x="${MARGIN}" y="${MARGIN + 14 + i * LINE_HEIGHT}" xml:space="preserve">${tspan(line)}</text>`,
)
writeFileSync(
  `${root}/docs/start/demo.svg`,
  `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">
<title>What npx sluice demo --fast prints</title>
<style>
text { font: 14px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #d7dde4 }
.command { fill: #8ab4f8 }
.kept { fill: #6fcf97 }
</style>
<rect width="100%" height="100%" rx="8" fill="#161b22"/>
${text.join('\n')}
</svg>
`,
)
