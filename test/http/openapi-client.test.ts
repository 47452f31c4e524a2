// A client that is generated from /openapi.json, by tools that know nothing of this server.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { HttpHarness } from './http-harness.ts'

/** The generator, as much of it as is used: its types need an older TypeScript than this project compiles with. */
interface Generator {
  readonly default: (document: object) => Promise<readonly object[]>
  readonly astToString: (nodes: readonly object[]) => string
}
interface Client {
  readonly runOne: (baseUrl: string, fetch: (request: Request) => Promise<Response>) => Promise<object>
}

const HOME = fileURLToPath(new URL('../openapi-client/', import.meta.url))
const OPTIONS = ['--strict', '--noEmit', '--skipLibCheck', '--target', 'es2023', '--module', 'nodenext']

test(
  'a client generated from the document compiles, refuses what the document refuses, and runs a job',
  { timeout: 180_000 },
  async () => {
    const d = await HttpHarness.open()
    const { body: document } = await d.get('/openapi.json')
    const inHome = createRequire(join(HOME, 'package.json'))
    const generator = (await import(pathToFileURL(inHome.resolve('openapi-typescript')).href)) as Generator
    mkdirSync(join(HOME, 'node_modules'), { recursive: true })
    const folder = mkdtempSync(join(HOME, 'node_modules', '.generated-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
    writeFileSync(join(folder, 'document.ts'), generator.astToString(await generator.default(document)))
    copyFileSync(join(HOME, 'client.ts'), join(folder, 'client.ts'))

    const compiler = join(dirname(inHome.resolve('typescript/package.json')), 'bin', 'tsc')
    const flags = [...OPTIONS, '--allowImportingTsExtensions', '--verbatimModuleSyntax']
    const compile = (): string =>
      execFileSync(process.execPath, [compiler, ...flags, join(folder, 'client.ts')], { encoding: 'utf8' })
    expect(compile()).toBe('')

    const { runOne } = (await import(pathToFileURL(join(HOME, 'client.ts')).href)) as Client
    expect(await runOne('http://server', (request) => d.app.fetch(request))).toEqual({
      pushed: 'available',
      args: ['a@acme.test'],
      settled: 'completed',
      result: { sent: 1 },
      refused: 'invalid_request',
      waiting: 0,
      queues: ['mail'],
    })
  },
)
