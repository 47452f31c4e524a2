// The types of graphs: each line that must be refused is refused for its own reason, and a large graph checks fast.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const EXPECTED = /^ *\/\/ @ts-expect-error (TS\d+):/

/** Compiles a file under the options of this repository, in a hidden folder that no other tool reads. */
function errorsOf(content: string): Map<number, string> {
  const folder = mkdtempSync(join(ROOT, 'test/flows/.types-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'subject.ts'), content.replaceAll("'../../src/", "'../../../src/"))
  const compilerOptions = {
    isolatedDeclarations: false,
    declaration: false,
    typeRoots: [join(ROOT, 'node_modules/@types')],
  }
  const config = { extends: join(ROOT, 'tsconfig.json'), compilerOptions, include: ['subject.ts'], exclude: [] }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
  let out = ''
  try {
    out = execFileSync(process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc'), '-p', folder], {
      encoding: 'utf8',
    })
  } catch (error) {
    out = String((error as { stdout?: unknown }).stdout)
  }
  const found = [...out.matchAll(/subject\.ts\((\d+),\d+\): error (TS\d+)/g)]
  return new Map(found.map(([, line, code]) => [Number(line), code ?? '']))
}

it('refuses each line for its own reason', () => {
  const lines = readFileSync(new URL('graph-example.ts', import.meta.url), 'utf8').split('\n')
  const expected = lines.flatMap((line, i) => {
    const code = EXPECTED.exec(line)?.[1]
    return code === undefined ? [] : [[i + 2, code] as const]
  })
  expect(expected.length).toBeGreaterThan(15)
  const bare = lines.map((line) => (EXPECTED.test(line) ? '' : line)).join('\n')
  // An error may be at a later line of the same statement.
  const found = [...errorsOf(bare)].map(([line, code]) => [expected.findLast(([at]) => at <= line)?.[0] ?? line, code])
  expect(found).toEqual(expected.map((each) => [...each]))
})

it('checks a graph of 50 steps', () => {
  const steps = Array.from({ length: 50 }, (_, i) => {
    const after = i === 0 ? '' : `.after('s${i - 1}'${i > 1 ? `, 's${i - 2}'` : ''})`
    const seen = i === 0 ? 'input' : `s${i - 1}`
    return `  ${after}.step('s${i}', { limits: [{ limit: crm, by: 'input.t' }] }, ({ ${seen} }) => ({ of: ${i === 0 ? 'input.t' : `s${i - 1}.of`} }))`
  })
  const text = `import { input, limit } from '../../src/exports/index.ts'
import { graph } from '../../src/exports/flows.ts'
const crm = limit('crm', { every: '1s' })
const wide = graph('wide', input<{ t: string }>())
${steps.join('\n')}
  .output(({ s49 }) => s49.of)
export const result: Promise<{ result(): Promise<string> }> = wide.start({ t: 'x' })
`
  const beganMs = performance.now()
  expect([...errorsOf(text)]).toEqual([])
  expect(performance.now() - beganMs).toBeLessThan(30_000)
})
