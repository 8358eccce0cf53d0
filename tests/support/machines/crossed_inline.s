# SPDX-License-Identifier: Apache-2.0
# Calls add() through its slot in place, as GNU's compiler does with -fno-plt.
	.abiversion 2
	.text
	.globl twice
	.type twice,@function
twice:
0:	addis 2,12,.TOC.-0b@ha
	addi 2,2,.TOC.-0b@l
	.localentry twice,.-twice
	mflr 0
	std 0,16(1)
	stdu 1,-64(1)
	std 31,56(1)
	mr 31,3
	std 2,24(1)
	addis 12,2,add@plt@ha
	ld 12,add@plt@l(12)
	mtctr 12
	bctrl
	ld 2,24(1)
	mr 4,31
	std 2,24(1)
	addis 12,2,add@plt@ha
	ld 12,add@plt@l(12)
	mtctr 12
	bctrl
	ld 2,24(1)
	ld 31,56(1)
	addi 1,1,64
	ld 0,16(1)
	mtlr 0
	blr
	.size twice,.-twice
	.section .note.GNU-stack,"",@progbits
