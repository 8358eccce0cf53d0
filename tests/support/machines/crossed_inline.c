// SPDX-License-Identifier: Apache-2.0
// Calls add() through a stub and, in crossed_inline.s, through its slot in place.
int add(int, int);
int twice(int, int);
void account(void);

int main(void)
{
	int sum = add(1, 2);

	for (int i = 0; i < 3; i++)
		sum += twice(i, sum);
	account();
	return sum;
}
