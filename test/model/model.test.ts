import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { sized } from '../sized.ts'

it('the executable model of the claim holds over its random histories', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, [
    join(import.meta.dirname, 'check.mjs'),
    String(sized(150, 3000)),
  ])
  expect(stdout).toContain('deputy stronger check { bad: 0')
  expect(stdout).toContain('heavy started at 1000 (exact 1000) light started before it since t>0: 0')
})
