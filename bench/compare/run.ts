// Measures Sluice and other engines on one machine, in one run, by one script.
//
//   npx node run.ts [--engines a,b] [--questions drain1,enqueue] [--profiles ordinary,best] [--runs 3] [--jobs 50000]
//                   [--seconds 20] [--backlog 50000]
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { type Profile } from './engine.ts'
import { ENGINES, engineOf } from './engines.ts'
import { type Numbers, QUESTIONS, type Size } from './questions.ts'

const { values } = parseArgs({
  options: {
    engines: { type: 'string', default: Object.keys(ENGINES).join(',') },
    questions: { type: 'string', default: Object.keys(QUESTIONS).join(',') },
    profiles: { type: 'string', default: 'ordinary,best' },
    runs: { type: 'string', default: '3' },
    jobs: { type: 'string', default: '50000' },
    seconds: { type: 'string', default: '20' },
    backlog: { type: 'string', default: '50000' },
  },
})
const postgres = process.env['SLUICE_TEST_POSTGRES'] ?? 'postgres://postgres@127.0.0.1:5432/test'
const redis = process.env['SLUICE_TEST_REDIS'] ?? 'redis://127.0.0.1:6379'
const size: Size = { jobs: Number(values.jobs), seconds: Number(values.seconds), backlog: Number(values.backlog) }
const CONCURRENCY = 100

const results = new Map<string, Map<string, number[]>>()

function keep(row: string, numbers: Numbers): void {
  const known = results.get(row) ?? new Map<string, number[]>()
  results.set(row, known)
  for (const [name, value] of Object.entries(numbers)) known.set(name, [...(known.get(name) ?? []), value])
}

// In turn, not one engine after the other: a minute in which the machine is busy hits all.
for (let run = 0; run < Number(values.runs); run++)
  for (const question of values.questions.split(','))
    for (const name of values.engines.split(','))
      for (const profile of values.profiles.split(',') as Profile[]) {
        const ask = QUESTIONS[question]
        if (!ask) throw new Error(`there is no question ${question}; there are ${Object.keys(QUESTIONS).join(', ')}`)
        const engine = engineOf(name)
        const space = `beside_${process.pid}_${name.replaceAll('-', '_')}`
        const numbers = await ask(
          { name, engine, setting: { profile, space, postgres, redis, concurrency: CONCURRENCY } },
          size,
        )
        keep(`${engine.label}, ${profile}`, numbers)
        console.error(`${run + 1}/${values.runs} ${name} ${profile}`, numbers)
      }

console.log(
  `\nnode ${process.version}, ${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, median (lowest … highest) of ${values.runs}\n`,
)
const columns = [...new Set([...results.values()].flatMap((row) => [...row.keys()]))]
for (const column of columns) {
  console.log(`| ${column} | median | lowest | highest |\n| --- | ---: | ---: | ---: |`)
  for (const [row, numbers] of results) {
    const sorted = (numbers.get(column) ?? []).sort((a, b) => a - b)
    const cells = [sorted[Math.floor(sorted.length / 2)], sorted[0], sorted.at(-1)]
    console.log(`| ${row} | ${cells.map(show).join(' | ')} |`)
  }
  console.log('')
}
console.log('Settings:')
for (const name of values.engines.split(',')) {
  const { label, settings, budgets } = engineOf(name)
  console.log(`- ${label}. Ordinary: ${settings.ordinary}. Best: ${settings.best}. Budgets: ${budgets}.`)
}

function show(value: number | undefined): string {
  if (value === undefined) return '–'
  if (!Number.isFinite(value)) return 'never'
  return value >= 1000 ? Math.round(value).toLocaleString('en') : value.toPrecision(3)
}
