// Prints kept results as Markdown: what was measured of each question, and what is wanted of the ratios.
//
//   npx node bench/compare/summary.ts [bench/compare/out/results.jsonl] [--write]
//
// --write puts the tables into docs/performance.md, between its two marks; `npx oxfmt docs` then aligns them.
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { type Bound, type Kept, ROWS } from './rows.ts'

/** The newest run of each row, as two tables. */
export function tableOf(all: readonly Kept[]): string {
  const rows = Object.keys(ROWS).filter((name) => all.some(({ row }) => row === name))
  const lines = [
    `Node ${process.version.slice(1)}, ${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}.`,
    'Medians of the rounds; in brackets the calmest round.',
    '',
    '| question | measured | value | wanted | met |',
    '| --- | --- | ---: | ---: | --- |',
    ...rows.flatMap((name) => boundsOf(name, newest(all, name))),
    '',
    '| question | measurement | figures |',
    '| --- | --- | --- |',
    ...rows.flatMap((name) => figuresOf(name, newest(all, name))),
    '',
    '| row | build | taken, UTC | rounds | free core | load |',
    '| --- | --- | --- | ---: | ---: | ---: |',
    ...rows.map((name) => sourceOf(name, newest(all, name))),
  ]
  return lines.join('\n')
}

/** The measurements of a row since its last first round. */
function newest(all: readonly Kept[], name: string): Kept[] {
  const own = all.filter(({ row }) => row === name)
  const starts = own.flatMap(({ round }, i) => (round === 1 && (i === 0 || own[i - 1]?.round !== 1) ? [i] : []))
  return own.slice(starts.at(-1) ?? 0)
}

function roundsOf(kept: readonly Kept[]): Kept[][] {
  const rounds = [...new Set(kept.map(({ round }) => round))]
  return rounds.map((round) => kept.filter((each) => each.round === round))
}

/** The round in which a core was freest. */
function calmest(kept: readonly Kept[]): Kept[] {
  const freedom = (round: readonly Kept[]): number => Math.min(...round.flatMap(({ core }) => core))
  return roundsOf(kept).sort((a, b) => freedom(b) - freedom(a))[0] ?? []
}

function boundsOf(name: string, kept: readonly Kept[]): string[] {
  const { question, bounds } = ROWS[name] ?? { question: name, bounds: [] }
  return bounds.map((bound) => {
    const values = roundsOf(kept).map((round) => valueIn(bound, round))
    const value = median(values.filter((each) => !Number.isNaN(each)))
    const quiet = valueIn(bound, calmest(kept))
    const [sign, wanted] = bound.wanted
    const isMet = sign === '≥' ? value >= wanted : value <= wanted
    const met = Number.isNaN(value) ? 'not measured' : isMet ? 'yes' : '**no**'
    return `| ${question} | ${bound.what} | ${show(value)} (${show(quiet)}) | ${sign} ${show(wanted)} | ${met} |`
  })
}

function valueIn(bound: Bound, round: readonly Kept[]): number {
  return bound.of((measurement, name) => {
    const found = round.find((each) => each.measurement === measurement)
    return found?.numbers[name] ?? NaN
  })
}

function figuresOf(name: string, kept: readonly Kept[]): string[] {
  const { question, measurements, shows } = ROWS[name] ?? { question: name, measurements: {}, shows: [] }
  return Object.keys(measurements).map((measurement) => {
    const own = kept.filter((each) => each.measurement === measurement)
    const quiet = calmest(kept).find((each) => each.measurement === measurement)
    const figures = shows.flatMap((show_) => {
      const values = own.flatMap(({ numbers }) => numbers[show_] ?? [])
      if (values.length === 0) return []
      return [`${show_}: ${show(median(values))} (${show(quiet?.numbers[show_] ?? NaN)})`]
    })
    return `| ${question} | ${measurement} | ${figures.join(', ') || '–'} |`
  })
}

function sourceOf(name: string, kept: readonly Kept[]): string {
  const cores = kept.flatMap(({ core }) => core)
  const loads = kept.map(({ load }) => load)
  const { at = '', build = '' } = kept[0] ?? {}
  const rounds = new Set(kept.map(({ round }) => round)).size
  return `| \`${name}\` | ${build} | ${at.slice(0, 16).replace('T', ' ')} | ${rounds} | ${Math.min(...cores)} to ${Math.max(...cores)} | ${Math.min(...loads).toFixed(1)} to ${Math.max(...loads).toFixed(1)} |`
}

function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? NaN
}

function show(value: number): string {
  if (Number.isNaN(value)) return '–'
  if (!Number.isFinite(value)) return 'never'
  if (value >= 100) return Math.round(value).toLocaleString('en')
  return String(Number(value.toPrecision(3)))
}

const MARKS = ['<!-- figures -->', '<!-- end of figures -->'] as const

function writeInto(page: string, tables: string): void {
  const text = readFileSync(page, 'utf8')
  const [from, to] = MARKS.map((mark) => text.indexOf(mark)) as [number, number]
  if (from < 0 || to < from) throw new Error(`${page} lacks ${MARKS.join(' and ')}`)
  writeFileSync(page, `${text.slice(0, from + MARKS[0].length)}\n\n${tables}\n\n${text.slice(to)}`)
}

if (process.argv[1] === import.meta.filename) {
  const names = process.argv.slice(2).filter((name) => name !== '--write')
  const file = names[0] ?? join(import.meta.dirname, 'out/results.jsonl')
  const kept = readFileSync(file, 'utf8').trim().split('\n')
  const tables = tableOf(kept.map((line) => JSON.parse(line) as Kept))
  if (process.argv.includes('--write')) writeInto(join(import.meta.dirname, '../../docs/performance.md'), tables)
  else console.log(tables)
}
