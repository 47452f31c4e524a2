// The types of flows under the compilers that users have: each line that must be refused is refused for its own reason, and a large graph checks fast.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
// An older one compiles a generated client too, which is why it is here.
const COMPILERS = [
  ['7', join(ROOT, 'node_modules/typescript/bin/tsc')],
  ['5.9', join(ROOT, 'test/openapi-client/node_modules/typescript/bin/tsc')],
] as const
const EXAMPLES = ['doors-example.ts', 'graph-example.ts'] as const
/** A compiler of another version may say the same by another code. */
const EXPECTED = /^ *\/\/ @ts-expect-error (TS\d+(?:, or TS\d+)?):/

/** Compiles files under the options of this repository, in a hidden folder that no other tool reads. */
function errorsOf(compiler: string, files: readonly string[]): Map<number, string>[] {
  const folder = mkdtempSync(join(ROOT, 'test/flows/.types-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const [i, content] of files.entries())
    writeFileSync(join(folder, `subject-${i}.ts`), content.replaceAll("'../../src/", "'../../../src/"))
  const compilerOptions = {
    isolatedDeclarations: false,
    declaration: false,
    typeRoots: [join(ROOT, 'node_modules/@types')],
  }
  const config = { extends: join(ROOT, 'tsconfig.json'), compilerOptions, include: ['subject-*.ts'], exclude: [] }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
  const { stdout } = spawnSync(process.execPath, [compiler, '-p', folder], { encoding: 'utf8' })
  // The sources are compiled by the newer one.
  const others = stdout.split('\n').filter((line) => line.includes('error TS') && !/subject-|^src\//.test(line))
  expect(others).toEqual([])
  return files.map((_, i) => {
    const found = [...stdout.matchAll(new RegExp(`subject-${i}\\.ts\\((\\d+),\\d+\\): error (TS\\d+)`, 'g'))]
    return new Map(found.map(([, line, code]) => [Number(line), code ?? '']))
  })
}

test.each(COMPILERS)('TypeScript %s refuses each line for its own reason', (_, compiler) => {
  const all = EXAMPLES.map((name) => readFileSync(new URL(name, import.meta.url), 'utf8').split('\n'))
  const expected = all.map((lines) =>
    lines.flatMap((line, i) => {
      const code = EXPECTED.exec(line)?.[1]
      return code === undefined ? [] : [[i + 2, code] as const]
    }),
  )
  expect(expected.flat().length).toBeGreaterThanOrEqual(33)
  const bare = all.map((lines) => lines.map((line) => (EXPECTED.test(line) ? '' : line)).join('\n'))
  for (const [i, errors] of errorsOf(compiler, bare).entries()) {
    const own = expected[i] ?? []
    // An error may be at a later line of the same statement.
    const found = [...errors].map(([line, code]) => [own.findLast(([at]) => at <= line)?.[0] ?? line, code])
    expect(found.map(([at]) => at)).toEqual(own.map(([at]) => at))
    const others = found.filter(([, code], at) => !own[at]?.[1].includes(code as string))
    expect(others).toEqual([])
  }
})

test('checks a graph of 50 steps', () => {
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
  expect(errorsOf(COMPILERS[0][1], [text])).toEqual([new Map()])
  expect(performance.now() - beganMs).toBeLessThan(30_000)
})
