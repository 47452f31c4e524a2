import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '..')
const run = promisify(execFile)

describe('the examples', () => {
  it.each(readdirSync(join(ROOT, 'examples')).filter((file) => file.endsWith('.ts')))(
    '%s runs to its end',
    async (file) => {
      const { stdout } = await run(process.execPath, [join(ROOT, 'examples', file)], { timeout: 60_000 })
      expect(stdout).not.toBe('')
    },
  )

  it('the README shows the quick start that is run', () => {
    const shown =
      /```ts\n(import \{ input, limit.*?)\n```/s.exec(readFileSync(join(ROOT, 'README.md'), 'utf8'))?.[1] ?? ''
    const example = readFileSync(join(ROOT, 'examples/quickstart.ts'), 'utf8')
    const code = (text: string): string[] => text.split('\n').map((line) => line.replace(/\s*\/\/ .*$/, '').trim())
    const differing = code(shown).filter((line) => line !== '' && !code(example).includes(line))
    expect(differing.filter((line) => !/^import |fetch\(|^const store = /.test(line))).toEqual([])
    expect(code(shown).length).toBeGreaterThan(20)
  })

  it.each([
    ['docs/internals/claim.md', 'one-claim.ts'],
    ['docs/start/first-limits.md', 'first-limits.ts'],
  ])('%s shows what %s prints', async (page, file) => {
    const { stdout } = await run(process.execPath, [join(ROOT, 'examples', file)], { timeout: 60_000 })
    expect(readFileSync(join(ROOT, page), 'utf8')).toContain(`\`\`\`\n${stdout.trimEnd()}\n\`\`\``)
  })
})
