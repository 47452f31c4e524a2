import { expect, test } from 'vitest'
import { withoutPassword } from '../../src/base/text.ts'

test.each([
  ['postgres://user:pw@host/db', 'postgres://user:***@host/db'],
  ['cannot reach "postgres://user:p@w:d@host:5432/db" now', 'cannot reach "postgres://user:***@host:5432/db" now'],
  ['postgres://host/db?user=u&password=pw&x=1', 'postgres://host/db?user=u&password=***&x=1'],
  ["host=h password='a b' dbname=d", 'host=h password=*** dbname=d'],
  ['postgres://user@host/db', 'postgres://user@host/db'],
  ['sqlite:./a:b@c.db', 'sqlite:./a:b@c.db'],
])('%s is shown as %s', (text, shown) => {
  expect(withoutPassword(text)).toBe(shown)
})
